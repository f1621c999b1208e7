package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/value"
)

// description is as much of OpenAPI as the test holds against the code.
type description struct {
	Paths map[string]map[string]struct {
		OperationID string
		Parameters  []struct {
			Name, In    string
			Required    bool
			Description string
			Schema      struct{ Type string }
		}
		RequestBody *struct {
			Required bool
			Content  map[string]struct{ Schema schema }
		}
		Responses map[string]struct {
			Ref     string `json:"$ref"`
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Ref         string `json:"$ref"`
	Type        string
	Format      string
	Description string
	Items       *schema
	Properties  map[string]schema
	Required    []string
	Enum        []string
}

// wholeDescription is that of the routes of tests.
func wholeDescription() []byte { return newServer(canned{}, defaultTimeouts()).Description() }

func descriptionOf(t *testing.T) description {
	t.Helper()
	var d description
	if err := json.Unmarshal(wholeDescription(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Each route and each of its parameters is described, and nothing else is.
func TestRoutesDescribed(t *testing.T) {
	d := descriptionOf(t)
	described := map[string]bool{}
	for path, methods := range d.Paths {
		for method := range methods {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, rt := range newServer(canned{}, defaultTimeouts()).routes {
		name := rt.method + " " + rt.path
		op, ok := d.Paths[rt.path][strings.ToLower(rt.method)]
		if !ok {
			t.Errorf("%s is not described", name)
			continue
		}
		delete(described, name)
		var want, got []string
		for _, p := range rt.params {
			kind := p.kind
			if p.repeated {
				kind = "array"
			}
			if !p.header {
				want = append(want, fmt.Sprint(p.name, " ", kind, " ", p.required))
			}
		}
		for _, p := range op.Parameters {
			if p.Description == "" {
				t.Errorf("%s: %s has no description", name, p.Name)
			}
			if p.In == "query" {
				got = append(got, fmt.Sprint(p.Name, " ", p.Schema.Type, " ", p.Required))
			} else if p.Name != "Last-Event-ID" || !rt.stream {
				t.Errorf("%s: parameter %s in %s", name, p.Name, p.In)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: parameters (-code +description)\n%s", name, diff)
		}
		var body string
		if op.RequestBody != nil {
			body = op.RequestBody.Content["application/json"].Schema.name()
		}
		if want := typeName(rt.body); body != want {
			t.Errorf("%s: body %q, want %q", name, body, want)
		}
		kind := "application/json"
		if rt.stream {
			kind = streamType
		}
		if want, got := typeName(rt.answer), op.Responses["200"].Content[kind].Schema.name(); want != got && rt.answer != nil {
			t.Errorf("%s: answer %q, want %q", name, got, want)
		}
		if op.Responses["default"].Ref != "#/components/responses/Failure" {
			t.Errorf("%s: failures are not described", name)
		}
	}
	for name := range described {
		t.Errorf("%s is described and does not exist", name)
	}
}

// name is that of the Go type that a schema stands for.
func (s schema) name() string {
	if s.Type == "array" {
		return "[]" + s.Items.name()
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

func typeName(v any) string {
	if v == nil {
		return ""
	}
	if t := reflect.TypeOf(v); t.Kind() == reflect.Slice {
		return "[]" + t.Elem().Name()
	} else {
		return t.Name()
	}
}

// Each field of each type that goes over the wire is described as it is.
func TestFieldsDescribed(t *testing.T) {
	d := descriptionOf(t)
	left := maps.Clone(d.Components.Schemas)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[counted](),
		reflect.TypeFor[Failure](),
		reflect.TypeFor[Claim](), reflect.TypeFor[outcome.Report](), reflect.TypeFor[outcome.Context](),
		reflect.TypeFor[outcome.Obstacle](), reflect.TypeFor[outcome.Explored](), reflect.TypeFor[outcome.Subtask](), reflect.TypeFor[outcome.Condition](),
		reflect.TypeFor[outcome.Evidence](), reflect.TypeFor[outcome.Check](),
	} {
		s, ok := d.Components.Schemas[typ.Name()]
		if !ok {
			t.Errorf("%s is not described", typ.Name())
			continue
		}
		delete(left, typ.Name())
		var want, got []string
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			optional := strings.Contains(options, "omit")
			want = append(want, fmt.Sprint(name, " ", kindOf(f.Type), " ", !optional))
		}
		for name, p := range s.Properties {
			if p.Description == "" && p.Ref == "" {
				t.Errorf("%s.%s has no description", typ.Name(), name)
			}
			got = append(got, fmt.Sprint(name, " ", p.kind(), " ", slices.Contains(s.Required, name)))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-code +description)\n%s", typ.Name(), diff)
		}
	}
	for name := range left {
		t.Errorf("schema %s stands for no type", name)
	}
}

func kindOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "date-time"
	case t == reflect.TypeFor[json.RawMessage](), t == reflect.TypeFor[value.Value]():
		return "any"
	case t == reflect.TypeFor[[]byte]():
		return "string"
	}
	switch t.Kind() {
	case reflect.Struct:
		return t.Name()
	case reflect.Slice:
		return "[]" + kindOf(t.Elem())
	case reflect.Map:
		return "object"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	}
	return "integer"
}

func (s schema) kind() string {
	switch {
	case s.Ref != "":
		return s.name()
	case s.Format != "":
		return s.Format
	case s.Type == "array":
		return "[]" + s.Items.kind()
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// The description is served as it is.
func TestDescriptionServed(t *testing.T) {
	s := startServer(t, newServer(canned{}, fastTimeouts()), "")
	resp, err := dial(t, s.socket).http.Get("http://x/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(data, wholeDescription()) {
		t.Errorf("%v: %.100s", err, data)
	}
}
