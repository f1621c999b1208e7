package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/coppice-dev/coppice/internal/api"
)

// described is a server whose answers are checked against its description.
type described struct {
	t      testing.TB
	server *api.Server
	parse  func() schemas
}

// Described returns a handler that serves s, and reports answers that do not match its
// description.
func Described(t testing.TB, s *api.Server) http.Handler {
	return &described{t, s, sync.OnceValue(func() schemas { return parse(t, s.Description()) })}
}

// ServeHTTP handles a request and checks the answer.
func (d *described) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w}
	defer func() { d.check(r, a) }()
	d.server.ServeHTTP(a, r)
}

// check reports where an answer differs from its description.
func (d *described) check(r *http.Request, a *answer) {
	place := []string{"components", "responses", "Failure"}
	kind := "application/json"
	switch {
	case a.status == http.StatusNoContent, a.status == http.StatusSwitchingProtocols, a.body.Len() == 0:
		return
	case a.status == http.StatusOK:
		place = []string{"paths", r.URL.Path, strings.ToLower(r.Method), "responses", "200"}
		kind = a.Header().Get("Content-Type")
	}
	values := []string{a.body.String()}
	if kind == "text/event-stream" {
		values = messages(values[0])
	}
	schema, err := d.parse().resolve(append(place, "content", kind, "schema")...)
	if err != nil {
		d.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	for _, text := range values {
		var v any
		err := json.Unmarshal([]byte(text), &v)
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			d.t.Errorf("%s %s: the answer is not as described: %v\n%s", r.Method, r.URL.Path, err, text)
		}
	}
}

// messages returns the items of a stream.
func messages(stream string) (all []string) {
	for message := range strings.SplitSeq(stream, "\n\n") {
		if strings.Contains(message, "event: ") { // its end
			continue
		}
		if _, data, ok := strings.Cut("\n"+message, "\ndata: "); ok {
			all = append(all, data)
		}
	}
	return all
}

// answer records the response to a client.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.body.Write(p)
	return a.ResponseWriter.Write(p)
}

// Unwrap supports http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// schemas are the schemas of a description. Each is resolved on its own, together with the
// definitions that it may refer to.
type schemas struct{ document, definitions map[string]any }

func parse(t testing.TB, description []byte) schemas {
	var document map[string]any
	if err := json.Unmarshal(description, &document); err != nil {
		t.Error(err)
		return schemas{}
	}
	prepare(document)
	definitions, _ := document["components"].(map[string]any)["schemas"].(map[string]any)
	return schemas{document, definitions}
}

// prepare rewrites references to point to the definitions. It replaces the date-time format,
// which the schema library ignores, by a pattern.
func prepare(v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			v["$ref"] = strings.Replace(ref, "#/components/schemas/", "#/$defs/", 1)
		}
		if v["format"] == "date-time" {
			v["pattern"] = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`
		}
		for _, e := range v {
			prepare(e)
		}
	case []any:
		for _, e := range v {
			prepare(e)
		}
	}
}

// resolve returns the schema at a path in the description.
func (s schemas) resolve(place ...string) (*jsonschema.Resolved, error) {
	at := s.document
	for _, name := range place {
		next, ok := at[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("there is no %q in %q of the description", name, place)
		}
		at = next
	}
	whole := maps.Clone(at)
	whole["$defs"] = s.definitions
	data, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(data, schema); err != nil {
		return nil, err
	}
	return schema.Resolve(nil)
}
