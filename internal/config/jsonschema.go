package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// schema is a JSON Schema, draft 7, which is what editors of TOML understand.
type schema map[string]any

// schemaBuilder makes the JSON Schema of a file from the rows that it is read and
// documented by.
type schemaBuilder struct {
	sections []section
	// special returns the schema of a value that only this file has, by the path of its table; nil
	// for any other. In a patch no key is required. It may be nil.
	special func(b *schemaBuilder, path string, r row, patch bool) schema
	// spellings returns what the reader takes, too, where a row lists a word. It may be nil.
	spellings func(word string) []string
	err       error // the first type that is not known
}

// write writes the schema of the file called title. It refuses nothing that the reader
// takes; what depends on several values, such as names, only the reader knows.
func (b *schemaBuilder) write(w io.Writer, title string) error {
	root := b.table("", "", false)
	if b.err != nil {
		return b.err
	}
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", title
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return fmt.Errorf("writing the schema of %s: %w", title, err)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing the schema of %s: %w", title, err)
	}
	return nil
}

// table is the schema of a table with a header, whose own name is below that of
// another one. In a patch no key is required but the name.
func (b *schemaBuilder) table(path, doc string, patch bool) schema {
	for _, s := range b.sections {
		if strings.Trim(s.header, "[]") != path {
			continue
		}
		properties, needed, unless := schema{}, []string{}, ""
		for _, r := range s.rows {
			properties[r.name] = b.value(path, r, patch)
			if r.def == required && !patch {
				needed = append(needed, r.name)
				unless = cmp.Or(unless, r.unless)
			}
		}
		t := schema{"type": "object", "properties": properties, "additionalProperties": false}
		if len(needed) > 0 {
			t["required"] = needed
		}
		if unless != "" {
			delete(t, "required")
			t["anyOf"] = []schema{{"required": needed}, {"required": []string{unless}}}
		}
		if doc == "" {
			doc = s.doc
		}
		t["description"] = doc
		return t
	}
	return nil
}

// patch is the schema of [[patches.agent]] and the like.
func (b *schemaBuilder) patch(of string) schema {
	t := b.table(of, "", true)
	properties := t["properties"].(schema)
	for _, s := range b.sections {
		if strings.Trim(s.header, "[]") != of {
			continue
		}
		for _, r := range s.rows {
			if s.takes(r.name, "array") {
				properties[r.name+"_append"] = schema{"type": "array",
					"description": "elements to add to the end of " + r.name}
			}
			if s.takes(r.name, "table") {
				properties[r.name+"_remove"] = schema{"type": "array", "items": schema{"type": "string"},
					"description": "keys to remove from " + r.name}
			}
		}
	}
	t["required"] = []string{"name"}
	return t
}

// value is the schema of a key of the table at path.
func (b *schemaBuilder) value(path string, r row, patch bool) schema {
	s := b.typed(path, r, patch)
	s["description"] = r.doc
	if r.def != "" && r.def != required {
		s["description"] = r.doc + " (default: " + r.def + ")"
	}
	return s
}

// typed is the schema of a type, in the words of its row.
func (b *schemaBuilder) typed(path string, r row, patch bool) schema {
	if b.special != nil {
		if s := b.special(b, path, r, patch); s != nil {
			return s
		}
	}
	text := schema{"type": "string", "minLength": 1}
	texts := schema{"type": "array", "items": schema{"type": "string"}}
	below := func() schema { return b.table(strings.TrimPrefix(path+"."+r.name, "."), r.doc, patch) }
	switch typ := r.typ; typ {
	case "string":
		return text
	case "boolean":
		return schema{"type": "boolean"}
	case "integer":
		return schema{"type": "integer", "minimum": 0}
	case "number":
		return schema{"type": "number", "exclusiveMinimum": 0}
	case "duration":
		return schema{"type": "string", "pattern": durationPattern, "not": schema{"pattern": "^[^1-9]*$"}}
	case durationOrZeroType:
		return schema{"type": "string", "pattern": durationPattern}
	case durationOrNeverType:
		return schema{"anyOf": []schema{{"const": "never"},
			{"type": "string", "pattern": durationPattern, "not": schema{"pattern": "^[^1-9]*$"}}}}
	case "size":
		return schema{"anyOf": []schema{{"type": "integer", "minimum": 1},
			{"type": "string", "pattern": `^\s*[0-9.]+\s*([bB]|[kKmMgGtT]([iI]?[bB]?)?)\s*$`}}}
	case "string or array of strings":
		return textOrWords()
	case "array of strings":
		return texts
	case "string or table":
		return schema{"anyOf": []schema{text, below()}}
	case "array of tables":
		return schema{"type": "array", "items": b.table(r.name, "", false)}
	case "table of strings":
		return schema{"type": "object", "additionalProperties": schema{"type": "string"}}
	case "value":
		return schema{}
	case "table":
		if t := below(); t != nil {
			return t
		}
		return schema{"type": "object"}
	default:
		list, or := strings.CutSuffix(typ, ", or table")
		var all []string
		for word := range strings.SplitSeq(list, ", ") {
			if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_-") != "" && b.err == nil {
				b.err = fmt.Errorf("the schema knows no type %q, which %s of %q has", typ, r.name, path)
			}
			all = append(all, word)
			if b.spellings != nil {
				all = append(all, b.spellings(word)...)
			}
		}
		if or {
			return schema{"anyOf": []schema{{"enum": all}, below()}}
		}
		return schema{"enum": all}
	}
}

// textOrWords is the schema of a string or an array of strings that is not empty.
func textOrWords() schema {
	return schema{"anyOf": []schema{{"type": "string", "minLength": 1},
		{"type": "array", "items": schema{"type": "string"}, "minItems": 1}}}
}

// durationPattern matches a duration.
const durationPattern = `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)$`
