package toml

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Schema is a JSON Schema, draft 7: the version that TOML editors understand.
type Schema map[string]any

// SchemaBuilder builds the JSON Schema of a file from the rows that also read and document
// the file.
type SchemaBuilder struct {
	Sections []Section
	// Special returns the schema of a value that only this file has, or nil. path is the path
	// of the table. In a patch no key is required. Special may be nil.
	Special func(b *SchemaBuilder, path string, r Row, patch bool) Schema
	// Spellings returns the other spellings of a listed word that the reader accepts. It may be nil.
	Spellings func(word string) []string
	err       error // the first unknown type
}

// Write writes the schema of the file called title. The schema accepts everything that the
// reader accepts. Only the reader checks conditions on several values, such as unique names.
func (b *SchemaBuilder) Write(w io.Writer, title string) error {
	root := b.Table("", "", false)
	if b.err != nil {
		return b.err
	}
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", title
	e := json.NewEncoder(w) // writes only after encoding everything
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return fmt.Errorf("writing the schema of %s: %w", title, err)
	}
	return nil
}

// Table returns the schema of the table whose header is path, such as agent.shutdown. In a
// patch no key is required except the name.
func (b *SchemaBuilder) Table(path, doc string, patch bool) Schema {
	for _, s := range b.Sections {
		if strings.Trim(s.Header, "[]") != path {
			continue
		}
		properties, needed, unless := Schema{}, []string{}, ""
		for _, r := range s.Rows {
			properties[r.Name] = b.value(path, r, patch)
			if r.Default == Required && !patch {
				needed = append(needed, r.Name)
				unless = cmp.Or(unless, r.Unless)
			}
		}
		t := Schema{"type": "object", "properties": properties, "additionalProperties": false}
		if len(needed) > 0 {
			t["required"] = needed
		}
		if unless != "" {
			delete(t, "required")
			t["anyOf"] = []Schema{{"required": needed}, {"required": []string{unless}}}
		}
		t["description"] = cmp.Or(doc, s.Doc)
		return t
	}
	return nil
}

// Patch returns the schema of an array of patches, such as [[patches.agent]].
func (b *SchemaBuilder) Patch(of string) Schema {
	t := b.Table(of, "", true)
	properties := t["properties"].(Schema)
	for _, s := range b.Sections {
		if strings.Trim(s.Header, "[]") != of {
			continue
		}
		for _, r := range s.patchRows() {
			property := Schema{"type": "array", "description": r.Doc}
			if strings.HasSuffix(r.Name, "_remove") {
				property["items"] = Schema{"type": "string"}
			}
			properties[r.Name] = property
		}
	}
	t["required"] = []string{"name"}
	return t
}

// value returns the schema of a key of the table at path, with its description.
func (b *SchemaBuilder) value(path string, r Row, patch bool) Schema {
	s := b.typed(path, r, patch)
	s["description"] = r.Doc
	if r.Default != "" && r.Default != Required {
		s["description"] = r.Doc + " (default: " + r.Default + ")"
	}
	return s
}

// typed returns the schema for the type that a row names.
func (b *SchemaBuilder) typed(path string, r Row, patch bool) Schema {
	if b.Special != nil {
		if s := b.Special(b, path, r, patch); s != nil {
			return s
		}
	}
	text := Schema{"type": "string", "minLength": 1}
	duration := Schema{"type": "string", "pattern": DurationPattern, "not": Schema{"pattern": "^[^1-9]*$"}}
	below := func() Schema { return b.Table(strings.TrimPrefix(path+"."+r.Name, "."), r.Doc, patch) }
	switch typ := r.Type; typ {
	case "string":
		return text
	case "boolean":
		return Schema{"type": "boolean"}
	case "integer":
		return Schema{"type": "integer", "minimum": 0}
	case "number":
		return Schema{"type": "number", "exclusiveMinimum": 0}
	case "duration":
		return duration
	case DurationOrZeroType:
		return Schema{"type": "string", "pattern": DurationPattern}
	case DurationOrNeverType:
		return Schema{"anyOf": []Schema{{"const": "never"}, duration}}
	case "size":
		return Schema{"anyOf": []Schema{{"type": "integer", "minimum": 1},
			{"type": "string", "pattern": `^\s*[0-9.]+\s*([bB]|[kKmMgGtT]([iI]?[bB]?)?)\s*$`}}}
	case "string or array of strings":
		return TextOrWords()
	case "array of strings":
		return Schema{"type": "array", "items": Schema{"type": "string"}}
	case "string or table":
		return Schema{"anyOf": []Schema{text, below()}}
	case "boolean or table":
		return Schema{"anyOf": []Schema{{"type": "boolean"}, below()}}
	case "array of tables":
		return Schema{"type": "array", "items": b.Table(r.Name, "", false)}
	case "table of strings":
		return Schema{"type": "object", "additionalProperties": Schema{"type": "string"}}
	case "value":
		return Schema{}
	case "table":
		if t := below(); t != nil {
			return t
		}
		return Schema{"type": "object"}
	default:
		list, or := strings.CutSuffix(typ, ", or table")
		var all []string
		for word := range strings.SplitSeq(list, ", ") {
			if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_-") != "" && b.err == nil {
				b.err = fmt.Errorf("the schema knows no type %q, which %s of %q has", typ, r.Name, path)
			}
			all = append(all, word)
			if b.Spellings != nil {
				all = append(all, b.Spellings(word)...)
			}
		}
		if or {
			return Schema{"anyOf": []Schema{{"enum": all}, below()}}
		}
		return Schema{"enum": all}
	}
}

// TextOrWords returns the schema of a non-empty string or array of strings.
func TextOrWords() Schema {
	return Schema{"anyOf": []Schema{{"type": "string", "minLength": 1},
		{"type": "array", "items": Schema{"type": "string"}, "minItems": 1}}}
}

// DurationPattern matches a duration.
const DurationPattern = `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)$`
