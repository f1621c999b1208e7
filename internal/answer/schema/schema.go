// Package schema checks JSON values against a JSON Schema and says where they do not fit.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is a JSON Schema with resolved references. It is safe for concurrent use.
type Schema struct {
	Root     *jsonschema.Schema // must not be changed
	resolved *jsonschema.Resolved
	divides  bool // parts mean the same without the rest of the document, except for definitions
}

// Compile parses a schema (draft 2020-12 unless $schema names draft 7). It returns an error for a
// text that is not a schema and for references to other documents, which are never read.
func Compile(text []byte) (*Schema, error) {
	if !json.Valid(text) {
		return nil, errors.New("not valid JSON")
	}
	root := new(jsonschema.Schema)
	if err := json.Unmarshal(text, root); err != nil {
		return nil, err
	}
	resolved, err := root.Resolve(&jsonschema.ResolveOptions{Loader: refuseToLoad})
	if err != nil {
		return nil, err
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return &Schema{root, resolved, divides(doc)}, nil
}

// divides reports whether all references in a schema are to definitions.
func divides(doc any) bool {
	switch doc := doc.(type) {
	case map[string]any:
		for name, value := range doc {
			ref, _ := value.(string)
			if name == "$dynamicRef" || name == "$ref" && !strings.HasPrefix(ref, "#/$defs/") &&
				!strings.HasPrefix(ref, "#/definitions/") || !divides(value) {
				return false
			}
		}
	case []any:
		for _, value := range doc {
			if !divides(value) {
				return false
			}
		}
	}
	return true
}

// refuseToLoad keeps a schema from reading other documents.
func refuseToLoad(uri *url.URL) (*jsonschema.Schema, error) {
	return nil, fmt.Errorf("%s is another document, and only this one is read", uri)
}

// Target follows references of a part of the schema to its definitions.
func (s *Schema) Target(part *jsonschema.Schema) *jsonschema.Schema {
	for range len(s.Root.Defs) + len(s.Root.Definitions) { // a chain has no more links
		name, ok := strings.CutPrefix(part.Ref, "#/$defs/")
		next := s.Root.Defs[name]
		if !ok {
			name, ok = strings.CutPrefix(part.Ref, "#/definitions/")
			next = s.Root.Definitions[name]
		}
		if !ok || next == nil {
			break
		}
		part = next
	}
	return part
}

// Error lists where a value does not fit a schema.
type Error struct{ Faults []Fault }

// Fault is one place at which a value does not fit.
type Fault struct {
	Pointer string // JSON pointer in the value; "" is the whole value
	Reason  string // keyword of the schema and what is wrong; may quote the value
}

func (e *Error) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ")
}

// String returns the pointer and the reason.
func (f Fault) String() string {
	if f.Pointer == "" {
		return f.Reason
	}
	return f.Pointer + ": " + f.Reason
}

// Fits reports whether a JSON value fits. It returns an error if the text is not a JSON value, or has
// a number that no float64 holds.
func (s *Schema) Fits(text []byte) (bool, error) {
	doc, err := decode(text)
	if err != nil {
		return false, err
	}
	return s.resolved.Validate(doc) == nil, nil
}

// Validate returns an *Error with all faults of a JSON value that does not fit, which takes longer
// than Fits. It returns the errors of Fits as well.
func (s *Schema) Validate(text []byte) error {
	doc, err := decode(text)
	if err != nil {
		return err
	}
	if err = s.resolved.Validate(doc); err == nil {
		return nil
	}
	f := finder{schema: s, own: make(map[*jsonschema.Schema]*jsonschema.Resolved)}
	if s.divides {
		f.find(s.Root, doc, "")
	}
	if len(f.faults) == 0 {
		f.faults = []Fault{{Reason: strings.TrimPrefix(err.Error(), "validating root: ")}}
	}
	return &Error{f.faults}
}

func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	return numbers(doc)
}

// numbers replaces each json.Number, which the validator takes for a string. Whole numbers become
// int64, so that they stay exact, and others float64.
func numbers(doc any) (any, error) {
	var err error
	switch doc := doc.(type) {
	case json.Number:
		if n, err := doc.Int64(); err == nil {
			return n, nil
		}
		x, err := doc.Float64()
		if err != nil {
			return nil, fmt.Errorf("the number %.40s is out of range", doc)
		}
		return x, nil
	case []any:
		for i := range doc {
			if doc[i], err = numbers(doc[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range doc {
			if doc[name], err = numbers(doc[name]); err != nil {
				return nil, err
			}
		}
	}
	return doc, nil
}
