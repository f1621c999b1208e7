package answer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

func TestParseSchema(t *testing.T) {
	for name, text := range map[string]string{
		"plan":       plan,
		"boolean":    `true`,
		"draft 2020": `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/a"}`,
		"draft 7": `{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"$ref": "#/definitions/a"}],
			"definitions": {"a": {"type": "string"}}, "dependencies": {"a": ["b"], "b": {"required": ["c"]}}}`,
		"reference to a property": `{"properties": {"a/b": {"type": "string"}, "c": {"$ref": "#/properties/a~1b"}}}`,
		"names of keywords":       `{"properties": {"$ref": {"type": "string"}, "items": true, "type": {"enum": ["$ref"]}}}`,
		"values of keywords":      `{"const": {"$ref": "x"}, "enum": [{"type": 5}], "default": {"not": 5}}`,
	} {
		if _, err := ParseSchema([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseSchemaErrors(t *testing.T) {
	doubling := `{"$ref": "#/$defs/a0", "$defs": {"a20": true`
	for i := range 20 {
		doubling += fmt.Sprintf(`, "a%d": {"anyOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%[2]d"}]}`, i, i+1)
	}
	doubling += "}}"
	for _, c := range []struct{ schema, want string }{
		{"", "schema: 1:1: not JSON"},
		{"{\n  \"type\": }",
			"schema: 2:11: not JSON: invalid character '}'"},
		{`{"type": "null", "type": "object"}`,
			`schema: 1:18: the key "type" is there twice`},
		{`{"a": "` + "\xff" + `"}`,
			"schema: 1:8: the byte 0xff is not UTF-8"},
		{`[]`, "schema: expected a schema"},
		{`{"x": "` + strings.Repeat("x", MaxSchema) + `"}`,
			"schema: has 65545 bytes, at most 65536"},
		{strings.Repeat(`{"not":`, 200) + "{}" + strings.Repeat("}", 200),
			"nested more than 100 levels deep"},
		{`{"properties": {"a": {"type": 5}}}`,
			`schema: /properties/a: invalid value for "type"`},
		{`{"properties": {"a/b": {"type": "strng"}}}`,
			`schema: /properties/a~1b/type: unknown type "strng", expected one of array`},
		{`{"type": ["null", "strng"]}`,
			`schema: /type: unknown type "strng"`},
		{`{"properties": {"a": 5}}`,
			"schema: /properties/a: expected a schema"},
		{`{"properties": []}`,
			"schema: /properties: expected an object of schemas"},
		{`{"anyOf": {}}`,
			"schema: /anyOf: expected a list of schemas"},
		{`{"anyOf": [true, "x"]}`,
			"schema: /anyOf/1: expected a schema"},
		{`{"allOf": "x"}`,
			"schema: /allOf: expected schemas"},
		{`{"items": {"minLength": "x"}}`,
			"schema: /items: "},
		{`{"items": {"required": "x"}}`,
			"schema: /items: "},
		{`{"properties": {"a": {"pattern": "("}}}`,
			"schema: /properties/a/pattern: error parsing regexp: missing closing )"},
		{`{"pattern": "(a{100}){10}b"}`,
			"schema: /pattern: the regular expression is too large"},
		{`{"patternProperties": {"^[": true}}`,
			"schema: /patternProperties/^[: error parsing regexp"},
		{`{"properties": {"a": {"$ref": "https://example.com/x.json"}}}`,
			`schema: /properties/a/$ref: "https://example.com/x.json" is another document, which is never read`},
		{`{"$ref": "file:///etc/passwd"}`,
			`schema: /$ref: "file:///etc/passwd" is another document`},
		{`{"$ref": "other.json#/a"}`,
			`schema: /$ref: "other.json#/a" is another document`},
		{`{"$ref": "#/$defs/a"}`,
			`schema: /$ref: "#/$defs/a" is not a part of this schema`},
		{`{"$ref": 5}`,
			`schema: /$ref: expected a reference`},
		{`{"$ref": "#"}`,
			"schema: the schema contains itself"},
		{`{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}`,
			"schema: /$defs/a: the schema contains itself"},
		{`{"properties": {"next": {"allOf": [{"$ref": "#"}]}}}`,
			"the schema contains itself"},
		{doubling, "more than 1000 places"},
		{`{"items": {"$dynamicRef": "#a"}}`,
			"schema: /items/$dynamicRef: is not supported"},
		{`{"$anchor": "a"}`, "schema: /$anchor: is not supported"},
		{`{"items": {"$id": "https://example.com"}}`,
			"schema: /items/$id: is supported only at the root"},
		{`{"$schema": "http://json-schema.org/draft-04/schema#"}`,
			"schema: /$schema: is "},
		{`{"$id": "a.json"}`, "schema: $id a.json does not resolve"},
	} {
		_, err := ParseSchema([]byte(c.schema))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v\nwant %s", c.schema, err, c.want)
			continue
		}
		if got := err.Error(); len(got) > maxError || got != plaintext.Line(got) || strings.Contains(got, "\n") {
			t.Errorf("%.80s: %q", c.schema, got)
		}
	}
}

func TestExpected(t *testing.T) {
	for text, want := range map[string]string{
		plan: `JSON of type object with ["steps"]`,
		`{}`: `a JSON value of the schema`,
		`{"$ref": "#/$defs/a", "$defs": {"a": {"type": ["array", "null"]}}}`: `JSON of type array or null`,
	} {
		if got := parse(t, text).expected; got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func FuzzParseSchema(f *testing.F) {
	for _, text := range []string{plan, `true`, `{"$ref": "#"}`,
		`{"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"pattern": "^a+$"}}}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"not": {}}], "dependencies": {"a": ["b"]}}`} {
		f.Add([]byte(text), `{"steps": [], "a": "b"}`)
	}
	f.Fuzz(func(t *testing.T, schema []byte, text string) {
		s, err := ParseSchema(schema)
		if err != nil {
			if got := err.Error(); got != plaintext.OneLine(got, maxError) {
				t.Fatalf("%q: %q", schema, got)
			}
			return
		}
		if got, err := s.Find(text); err == nil && s.schema.Validate(got) != nil {
			t.Fatalf("%q: %q does not fit", schema, got)
		}
	})
}
