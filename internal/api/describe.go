package api

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

//go:embed openapi/*.json
var described embed.FS

// Description returns the OpenAPI 3.1 description of the routes of a server. Types describe the
// routes of features. openapi/base.json and a file for each topic describe the rest.
func (s *Server) Description() []byte { return s.description() }

func (s *Server) describe() []byte {
	d, err := describe(s.routes)
	if err != nil {
		panic(err) // the files are embedded, and a test reads them
	}
	return d
}

// document is a part of a description.
type document struct {
	OpenAPI    string                     `json:"openapi,omitempty"`
	Info       json.RawMessage            `json:"info,omitempty"`
	Servers    json.RawMessage            `json:"servers,omitempty"`
	Paths      map[string]json.RawMessage `json:"paths"`
	Components map[string]json.RawMessage `json:"components"`
}

func describe(routes []*route) ([]byte, error) {
	var whole document
	schemas := make(map[string]json.RawMessage)
	all, err := described.ReadDir("openapi")
	if err != nil {
		return nil, err
	}
	for _, f := range all { // base.json comes first; decoding adds to the maps
		data, err := described.ReadFile("openapi/" + f.Name())
		if err != nil {
			return nil, err
		}
		if err = json.Unmarshal(data, &whole); err == nil && whole.Components["schemas"] != nil {
			err = json.Unmarshal(whole.Components["schemas"], &schemas)
		}
		if err != nil {
			return nil, fmt.Errorf("openapi/%s: %w", f.Name(), err)
		}
	}
	typed := schemaSet{}
	for name := range schemas {
		typed[name] = namedSchema{}
	}
	paths := make(map[string]map[string]operation)
	for _, rt := range routes {
		if rt.doc == nil {
			continue
		}
		if paths[rt.path] == nil {
			paths[rt.path] = make(map[string]operation)
		}
		paths[rt.path][strings.ToLower(rt.method)] = rt.operation(typed)
	}
	for path, methods := range paths {
		if whole.Paths[path], err = json.Marshal(methods); err != nil {
			return nil, err
		}
	}
	for name, of := range typed {
		if of.schema == nil {
			continue
		}
		if schemas[name], err = json.Marshal(of.schema); err != nil {
			return nil, err
		}
	}
	if whole.Components["schemas"], err = json.Marshal(schemas); err != nil {
		return nil, err
	}
	return json.MarshalIndent(whole, "", "  ")
}

// routeDoc describes a route.
type routeDoc struct {
	id, summary, text, returns string
	status                     int // of a success other than 200 or 204
}

// ownID returns the operationId of a route for agents that also exists for people: listMail
// becomes listOwnMail, and question becomes ownQuestion.
func ownID(id string) string {
	if at := strings.IndexFunc(id, unicode.IsUpper); at >= 0 {
		return id[:at] + "Own" + id[at:]
	}
	return "own" + strings.ToUpper(id[:1]) + id[1:]
}

type (
	operation struct {
		ID          string                `json:"operationId"`
		Summary     string                `json:"summary"`
		Description string                `json:"description,omitempty"`
		Security    []map[string][]string `json:"security,omitempty"`
		Parameters  []parameter           `json:"parameters,omitempty"`
		Body        *requestBody          `json:"requestBody,omitempty"`
		Responses   map[string]response   `json:"responses"`
	}
	parameter struct {
		Name        string      `json:"name"`
		In          string      `json:"in"`
		Required    bool        `json:"required,omitempty"`
		Description string      `json:"description"`
		Schema      *jsonSchema `json:"schema"`
	}
	requestBody struct {
		Required bool               `json:"required"`
		Content  map[string]content `json:"content"`
	}
	response struct {
		Ref         string             `json:"$ref,omitempty"`
		Description string             `json:"description,omitempty"`
		Headers     map[string]ref     `json:"headers,omitempty"`
		Content     map[string]content `json:"content,omitempty"`
	}
	content struct {
		Schema *jsonSchema `json:"schema"`
	}
	ref struct {
		Ref string `json:"$ref"`
	}
)

// operation describes a route, and adds its types to the schemas.
func (rt *route) operation(types schemaSet) operation {
	o := operation{ID: rt.doc.id, Summary: rt.doc.summary, Description: rt.doc.text}
	if rt.agent {
		o.Security = []map[string][]string{{"agent": {}}}
	}
	for _, p := range rt.params {
		in := "query"
		if p.header {
			in = "header"
		}
		o.Parameters = append(o.Parameters, parameter{p.name, in, p.required, p.doc, p.schema()})
	}
	if rt.body != nil {
		o.Body = &requestBody{true, map[string]content{"application/json": {types.of(rt.body)}}}
	}
	success := response{
		Description: rt.doc.returns, Headers: map[string]ref{versionHeader: {"#/components/headers/" + versionHeader}},
	}
	status := http.StatusOK
	switch {
	case rt.doc.status != 0:
		status = rt.doc.status
	case rt.answer == nil:
		status, success.Description = http.StatusNoContent, cmp.Or(rt.doc.returns, "It is done.")
	default:
		kind := "application/json"
		if rt.stream {
			kind = streamType
		}
		success.Content = map[string]content{kind: {types.of(rt.answer)}}
	}
	o.Responses = map[string]response{fmt.Sprint(status): success, "default": {Ref: "#/components/responses/Failure"}}
	return o
}

// schema returns the schema of a parameter.
func (p param) schema() *jsonSchema {
	s := &jsonSchema{Type: p.kind, Default: p.defaultValue}
	switch p.kind {
	case "string":
		s.MaxLength = maxPath
	case "boolean":
		s.Default = false
	case "integer":
		s.Minimum = new(float64)
		if maximum := float64(p.maximum); maximum > 0 {
			s.Maximum = &maximum
		}
	}
	if p.repeated {
		return &jsonSchema{Type: "array", Items: s}
	}
	return s
}
