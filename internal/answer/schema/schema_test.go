package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const plan = `{"type": "object", "required": ["steps"], "additionalProperties": false, "properties": {
	"steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}},
	"a/b~c": {"type": "string"}},
	"$defs": {"step": {"$ref": "#/$defs/real"}, "real": {"type": "object", "required": ["title"], "properties": {
		"title": {"type": "string", "pattern": "^[a-z]"}, "n": {"type": "integer", "maximum": 9}}}}}`

func TestValidate(t *testing.T) {
	const (
		loop = `{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
			"properties": {"n": {"type": "null"}}}`
		prefix    = `{"prefixItems": [{"type": "string"}], "items": {"type": "null"}}`
		other     = `{"properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}}`
		anyOf     = `{"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string"}]}}}`
		recursive = `{"properties": {"next": {"$ref": "#"}}, "required": ["x"]}`
	)
	const old = `{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"type": "integer"}},
		"items": [{"type": "string"}], "properties": {"n": {"$ref": "#/definitions/n"}}}`
	for name, c := range map[string]struct{ schema, value, want string }{
		"fits":          {plan, `{"steps": [{"title": "x", "n": 9}]}`, ""},
		"not an object": {plan, `[]`, `type: [] has type "array", want "object"`},
		"missing":       {plan, `{}`, `required: missing properties: ["steps"]`},
		"all faults": {plan, `{"steps": [{"title": "X"}, {"n": 9.5}], "a/b~c": 1, "b": 1}`,
			`unexpected additional properties ["b"]; /a~1b~0c: type: 1 has type "integer", want "string"; ` +
				`/steps/0/title: pattern: "X" does not match regular expression "^[a-z]"; ` +
				`/steps/1: required: missing properties: ["title"]; ` +
				`/steps/1/n: type: 9.5 has type "number", want "integer"`},
		"exact numbers": {`{"type": "integer", "maximum": 9007199254740992}`, `9007199254740993`,
			"maximum: 9007199254740993/1 is greater than 9007199254740992.000000"},
		"number":              {`{}`, `[1, {"a": 1e400}]`, "the number 1e400 is out of range"},
		"not JSON":            {`{}`, `{`, "unexpected EOF"},
		"draft 7":             {old, `{"n": "x"}`, `/n: type: x has type "string", want "integer"`},
		"draft 7 list":        {old, `[1]`, `type: 1 has type "integer", want "string"`},
		"other references":    {other, `{"b": 1}`, `type: 1 has type "integer", want "string"`},
		"prefix":              {prefix, `["", 1]`, `/1: type: 1 has type "integer", want "null"`},
		"any":                 {anyOf, `{"a": 1}`, "/a: anyOf: did not validate against any of"},
		"recursive":           {recursive, `{"x": 1, "next": {"x": 1, "next": {}}}`, `required: missing properties: ["x"]`},
		"reference to itself": {loop, `{"n": 1}`, `/n: type: 1 has type "integer", want "null"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			err = s.Validate([]byte(c.value))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	s, err := Compile([]byte(plan))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(fmt.Appendf(nil, `{"steps": [{}%s]}`, strings.Repeat(", {}", 200_000)))
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Faults) != maxFaults {
		t.Fatalf("%.200v", err)
	}
	if got := e.Faults[1].Pointer; got != "/steps/1" {
		t.Error(got)
	}
}

func TestCompile(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                               "not valid JSON",
		`{"type": 5}`:                     `invalid value for "type"`,
		`{"$ref": "file:///etc/passwd"}`:  "file:///etc/passwd is another document",
		`{"$ref": "https://example.com"}`: "https://example.com is another document",
		`{"pattern": "("}`:                "missing closing )",
	} {
		if _, err := Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
