package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/token"
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

// wholeDescription is that of all routes of a Daemon.
func wholeDescription() []byte { return newServer(canned{}, defaultPace()).Description() }

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
	for _, rt := range newServer(canned{}, defaultPace()).routes {
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
		reflect.TypeFor[ActRequest](), reflect.TypeFor[Acted](), reflect.TypeFor[DownRequest](), reflect.TypeFor[Failure](),
		reflect.TypeFor[Beat](), reflect.TypeFor[RestartRequest](), reflect.TypeFor[HookRequest](), reflect.TypeFor[Notice](), reflect.TypeFor[Vitals](),
		reflect.TypeFor[DrainRequest](), reflect.TypeFor[Drain](), reflect.TypeFor[Pool](), reflect.TypeFor[PoolAt](), reflect.TypeFor[DrainCheck](), reflect.TypeFor[Reloaded](), reflect.TypeFor[Farewell](), reflect.TypeFor[Overdue](), reflect.TypeFor[PatrolRequest](), reflect.TypeFor[Round](), reflect.TypeFor[RoundAction](), reflect.TypeFor[RoundDelay](), reflect.TypeFor[Standing](),
		reflect.TypeFor[token.Caller](), reflect.TypeFor[Claim](), reflect.TypeFor[outcome.Report](), reflect.TypeFor[outcome.Context](),
		reflect.TypeFor[outcome.Obstacle](), reflect.TypeFor[outcome.Explored](), reflect.TypeFor[outcome.Subtask](), reflect.TypeFor[outcome.Condition](),
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
			optional := strings.Contains(options, "omit") || typ == reflect.TypeFor[DownRequest]()
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
	var actions []string
	for _, a := range Actions() {
		actions = append(actions, string(a))
	}
	if diff := cmp.Diff(actions, d.Components.Schemas["ActRequest"].Properties["action"].Enum); diff != "" {
		t.Errorf("actions:\n%s", diff)
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

// bodies are those of requests that have both a body and an answer.
var bodies = map[string]string{
	"POST /v1/act":        `{"path":"app/a","action":"start"}`,
	"POST /v1/patrol":     `{"dry_run":true}`,
	"POST /v1/agent/hook": `{"key":"k"}`,
}

// describedSchemas are the schemas of an API description. A schema is resolved alone, so
// that those that it refers to are put among its own definitions.
type describedSchemas struct{ document, definitions map[string]any }

func schemasOf(t *testing.T, description []byte) describedSchemas {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal(description, &document); err != nil {
		t.Fatal(err)
	}
	prepareSchemas(document)
	definitions := document["components"].(map[string]any)["schemas"].(map[string]any)
	return describedSchemas{document, definitions}
}

// prepareSchemas rewrites references to the place of the definitions, and asserts the
// format of times, of which the schema library takes no notice, by a pattern.
func prepareSchemas(v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			v["$ref"] = strings.Replace(ref, "#/components/schemas/", "#/$defs/", 1)
		}
		if v["format"] == "date-time" {
			v["pattern"] = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`
		}
		for _, e := range v {
			prepareSchemas(e)
		}
	case []any:
		for _, e := range v {
			prepareSchemas(e)
		}
	}
}

// schema resolves the schema at a path in the description.
func (d describedSchemas) schema(t *testing.T, path ...string) *jsonschema.Resolved {
	t.Helper()
	at := d.document
	for _, name := range path {
		next, ok := at[name].(map[string]any)
		if !ok {
			t.Fatalf("there is no %q in %q", name, path)
		}
		at = next
	}
	whole := maps.Clone(at)
	whole["$defs"] = d.definitions
	data, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(data, schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// Real answers are as the description says, those of a service that says
// nothing and those of one that says all.
func TestAnswersMatchDescription(t *testing.T) {
	doc := schemasOf(t, wholeDescription())
	for name, service := range map[string]Daemon{"empty": canned{}, "full": canned{full: true}, "failing": canned{err: ErrConflict}} {
		s := start(t, service, "", patiently())
		c := dial(t, s.socket)
		for _, rt := range newServer(service, patiently()).routes {
			if rt.answer == nil {
				continue
			}
			query := url.Values{}
			for _, p := range rt.params {
				if p.required {
					query.Set(p.name, "app")
				}
			}
			req, err := http.NewRequest(rt.method, "http://x"+rt.path+"?"+query.Encode(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body := bodies[rt.method+" "+rt.path]; body != "" {
				req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
				req.Header.Set("Content-Type", "application/json")
			} else if rt.body != nil {
				t.Fatalf("there is no body for %s %s", rt.method, rt.path)
			}
			if rt.agent {
				req.Header.Set("Authorization", "Bearer some")
			}
			resp, err := c.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			where := []string{"paths", rt.path, strings.ToLower(rt.method), "responses", "200"}
			content := "application/json"
			if name == "full" && resp.StatusCode != http.StatusOK {
				t.Errorf("%s %s: %s", rt.method, rt.path, resp.Status)
			}
			if resp.StatusCode != http.StatusOK {
				where = []string{"components", "responses", "Failure"}
			} else if rt.stream {
				content = "text/event-stream"
			}
			schema := doc.schema(t, append(where, "content", content, "schema")...)
			check := func(data []byte) {
				var v any
				err := json.Unmarshal(data, &v)
				if err == nil {
					err = schema.Validate(v)
				}
				if err != nil {
					t.Errorf("%s %s: %s\n%v", name, rt.path, data, err)
				}
			}
			items := 0
			if rt.stream && resp.StatusCode == http.StatusOK {
				for m, err := range readMessages(resp.Body) {
					if err == nil && m.name == "" {
						check(m.data)
						items++
					}
				}
			} else {
				data, _ := io.ReadAll(resp.Body)
				check(data)
				items++
			}
			resp.Body.Close()
			if name == "full" && items == 0 {
				t.Errorf("%s: nothing was checked", rt.path)
			}
		}
		s.stop()
	}
}

// The description is served as it is.
func TestDescriptionServed(t *testing.T) {
	s := startServer(t, newServer(canned{}, patiently()), "")
	resp, err := dial(t, s.socket).http.Get("http://x/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(data, wholeDescription()) {
		t.Errorf("%v: %.100s", err, data)
	}
}
