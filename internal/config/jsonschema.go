package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/coppice-dev/coppice/internal/aidefile"
)

// schema is a JSON Schema, draft 7, which is what editors of TOML understand.
type schema map[string]any

// WriteSchema writes the JSON Schema of coppice.toml. It is made of the rows
// that the file is read and documented by, and refuses nothing that the reader
// takes; what depends on several values, such as names, only the reader knows.
func WriteSchema(w io.Writer) error {
	b := schemaBuilder{sections: sections()}
	root := b.table("", "", false)
	patch := schema{"type": "object", "description": "changes of what is declared elsewhere",
		"additionalProperties": false, "properties": schema{
			"agent":      schema{"type": "array", "items": b.patch("agent")},
			"supervisor": schema{"type": "array", "items": b.patch("supervisor")},
		}}
	root["properties"].(schema)["patches"] = patch
	return b.write(w, root, "coppice.toml")
}

// WriteGroveSchema writes the JSON Schema of grove.toml.
func WriteGroveSchema(w io.Writer) error {
	b := schemaBuilder{sections: groveSections()}
	return b.write(w, b.table("", "", false), "grove.toml")
}

// WriteAidefileSchema writes the JSON Schema of an Aidefile.
func WriteAidefileSchema(w io.Writer) error {
	b := schemaBuilder{sections: aidefileSections()}
	return b.write(w, b.table("", "", false), aidefile.FileName)
}

type schemaBuilder struct {
	sections []section
	err      error // the first type that is not known
}

func (b *schemaBuilder) write(w io.Writer, root schema, title string) error {
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
		properties, needed := schema{}, []string{}
		for _, r := range s.rows {
			properties[r.name] = b.value(path, r, patch)
			if r.def == required && !patch {
				needed = append(needed, r.name)
			}
		}
		t := schema{"type": "object", "properties": properties, "additionalProperties": false}
		if len(needed) > 0 {
			t["required"] = needed
		}
		if path == "agent" && !patch {
			delete(t, "required")
			t["anyOf"] = []schema{{"required": needed}, {"required": []string{"aidefile"}}}
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
	text := schema{"type": "string", "minLength": 1}
	texts := schema{"type": "array", "items": schema{"type": "string"}}
	words := schema{"type": "array", "items": schema{"type": "string"}, "minItems": 1}
	below := func() schema { // the table of this key
		at := strings.TrimPrefix(path+"."+r.name, ".")
		if r.typ == hookType {
			at = "agent.on_waking" // which stands for all hooks
		}
		return b.table(at, r.doc, patch)
	}
	switch typ := r.typ; typ {
	case "string":
		return text
	case "boolean":
		return schema{"type": "boolean"}
	case "integer":
		return schema{"type": "integer", "minimum": 0}
	case "number":
		return schema{"type": "number", "exclusiveMinimum": 0}
	case `integer or "unlimited"`: // for which -1 stands
		return schema{"anyOf": []schema{{"type": "integer", "minimum": -1}, {"const": "unlimited"}}}
	case maxType:
		return schema{"anyOf": []schema{{"type": "integer", "minimum": 0}, {"const": "unlimited"}}}
	case "duration":
		return schema{"type": "string", "pattern": durationPattern, "not": schema{"pattern": "^[^1-9]*$"}}
	case durationOrZeroType:
		return schema{"type": "string", "pattern": durationPattern}
	case durationOrNeverType:
		return schema{"anyOf": []schema{{"const": "never"},
			{"type": "string", "pattern": durationPattern, "not": schema{"pattern": "^[^1-9]*$"}}}}
	case secondsType:
		return schema{"anyOf": []schema{{"type": "string", "pattern": durationPattern},
			{"type": "string", "pattern": "^[0-9]+$"}}}
	case tokensType:
		return schema{"anyOf": []schema{{"type": "integer", "minimum": 0},
			{"type": "string", "pattern": `^\s*[0-9]+([.][0-9]+)?[kKmM]?\s*$`}}}
	case "size":
		return schema{"anyOf": []schema{{"type": "integer", "minimum": 1},
			{"type": "string", "pattern": `^\s*[0-9.]+\s*([bB]|[kKmMgGtT]([iI]?[bB]?)?)\s*$`}}}
	case "string or array of strings":
		return schema{"anyOf": []schema{text, words}}
	case hookType:
		return schema{"anyOf": []schema{text, words, below()}}
	case "array of strings":
		return texts
	case "string or table":
		return schema{"anyOf": []schema{text, below()}}
	case "array of tables":
		if path == "orders" && r.name == "overrides" {
			t := b.table("order", "", true)
			t["required"] = []string{"name"}
			return schema{"type": "array", "items": t}
		}
		return schema{"type": "array", "items": b.table(r.name, "", false)}
	case "table of strings":
		return schema{"type": "object", "additionalProperties": schema{"type": "string"}}
	case "value":
		return schema{}
	case "table":
		switch {
		case path == "agent" && r.name == "beliefs":
			// A table is a declaration, anything else the initial value.
			return schema{"type": "object", "additionalProperties": schema{
				"anyOf": []schema{{"type": []string{"string", "number", "boolean", "array"}},
					b.table("agent.beliefs", "", patch)},
			}}
		case path == "" && r.name == "patches":
			return schema{}
		}
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
			all = append(append(all, word), otherSpellings(word)...)
		}
		if or {
			return schema{"anyOf": []schema{{"enum": all}, below()}}
		}
		return schema{"enum": all}
	}
}

const durationPattern = `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)$`

// otherSpellings are those of a word that the reader takes, too.
func otherSpellings(word string) []string {
	switch word {
	case "one_for_one":
		return []string{"OneForOne"}
	case "one_for_all":
		return []string{"OneForAll"}
	case "rest_for_one":
		return []string{"RestForOne"}
	case "always":
		return []string{"permanent", "Permanent"}
	case "on-failure":
		return []string{"transient", "Transient"}
	case "never":
		return []string{"temporary", "Temporary"}
	case "give_up":
		return []string{"give-up"}
	}
	return nil
}
