package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schema is a schema with resolved references.
type schema struct {
	root     *jsonschema.Schema
	resolved *jsonschema.Resolved
}

// compile parses a schema. An invalid schema is a fault of the caller.
func compile(raw json.RawMessage) (schema, error) {
	if !json.Valid(raw) {
		return schema{}, errors.New("the schema of the answer is not valid JSON")
	}
	root := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, root); err != nil {
		return schema{}, fmt.Errorf("the schema of the answer: %w", err)
	}
	resolved, err := root.Resolve(&jsonschema.ResolveOptions{Loader: refuseToLoad})
	if err != nil {
		return schema{}, fmt.Errorf("the schema of the answer: %w", err)
	}
	return schema{root, resolved}, nil
}

// refuseToLoad keeps a schema from reading other documents.
func refuseToLoad(uri *url.URL) (*jsonschema.Schema, error) {
	return nil, fmt.Errorf("%s is another document, and only this one is read", uri)
}

// read returns the JSON value in a text, if it is valid. Its error tells a model how to correct
// it.
func (s schema) read(text string) (json.RawMessage, error) {
	raw, err := Extract(text)
	if err != nil {
		return nil, err
	}
	if err := checkBounds(raw); err != nil {
		return nil, err
	}
	return raw, s.validate(raw)
}

// validate returns an error with all faults of a value and their paths.
func (s schema) validate(raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return err
	}
	doc = numbers(doc)
	err := s.resolved.Validate(doc)
	if err == nil {
		return nil
	}
	faults := s.faults(s.root, doc, "")
	if len(faults) == 0 {
		faults = []string{err.Error()}
	}
	return errors.New(cut(strings.Join(faults, "; "), maxReason))
}

// faults returns the faults of a value at a path. The validator stops at the first fault, but a
// model that knows all of them needs fewer attempts.
func (s schema) faults(part *jsonschema.Schema, doc any, path string) (all []string) {
	part = s.target(part)
	own := *part // without nested schemas
	own.Defs = s.root.Defs
	own.Properties = maps.Clone(part.Properties)
	for name := range own.Properties {
		own.Properties[name] = new(jsonschema.Schema)
	}
	own.PrefixItems = make([]*jsonschema.Schema, len(part.PrefixItems))
	for i := range own.PrefixItems {
		own.PrefixItems[i] = new(jsonschema.Schema)
	}
	if part.Items != nil {
		own.Items = new(jsonschema.Schema)
	}
	resolved, err := own.CloneSchemas().Resolve(nil)
	if err == nil {
		err = resolved.Validate(doc)
	}
	if err != nil {
		all = append(all, strings.TrimPrefix(path+": "+strings.TrimPrefix(err.Error(), "validating root: "), ": "))
	}
	switch doc := doc.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(part.Properties)) {
			if value, ok := doc[name]; ok {
				all = append(all, s.faults(part.Properties[name], value, path+"/"+name)...)
			}
		}
	case []any:
		for i, value := range doc {
			item := part.Items
			if i < len(part.PrefixItems) {
				item = part.PrefixItems[i]
			}
			if item != nil && len(all) < maxFaults {
				all = append(all, s.faults(item, value, path+"/"+strconv.Itoa(i))...)
			}
		}
	}
	return all
}

// maxFaults bounds the number of faults after which the elements of a list are not checked.
const maxFaults = 20

// target follows references to the definitions of the schema.
func (s schema) target(part *jsonschema.Schema) *jsonschema.Schema {
	for range s.root.Defs { // a chain has no more links than there are definitions
		name, isRef := strings.CutPrefix(part.Ref, "#/$defs/")
		if next := s.root.Defs[name]; isRef && next != nil {
			part = next
		}
	}
	return part
}

// numbers replaces each json.Number, which the validator takes for a string. Whole numbers become
// int64, so that they stay exact, and others float64.
func numbers(doc any) any {
	switch doc := doc.(type) {
	case json.Number:
		if n, err := doc.Int64(); err == nil {
			return n
		}
		x, _ := doc.Float64() // checkBounds has bounded it
		return x
	case []any:
		for i := range doc {
			doc[i] = numbers(doc[i])
		}
	case map[string]any:
		for name := range doc {
			doc[name] = numbers(doc[name])
		}
	}
	return doc
}

// Bounds of values. A float64 holds all numbers within them.
const (
	maxNesting  = 200
	maxExponent = 300
	maxDigits   = 300
)

// checkBounds rejects valid JSON values that could do harm. It also rejects objects with two
// values for one name, since readers differ in which one they take.
func checkBounds(raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	type level struct {
		names map[string]bool // nil in an array
		value bool            // the next token in the object is the value of a name
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end; the value is known to be valid
		}
		top := len(levels) - 1
		if top >= 0 && levels[top].names != nil {
			if name, ok := token.(string); ok && !levels[top].value {
				if levels[top].names[name] {
					return fmt.Errorf("the name %.80q is twice in one object", name)
				}
				levels[top].names[name], levels[top].value = true, true
				continue
			}
			levels[top].value = false
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				levels = append(levels, level{names: make(map[string]bool)})
			case '[':
				levels = append(levels, level{})
			default:
				levels = levels[:top]
			}
			if len(levels) > maxNesting {
				return fmt.Errorf("it is nested more than %d deep", maxNesting)
			}
		case json.Number:
			mantissa, exponent, _ := strings.Cut(strings.ToLower(token.String()), "e")
			if e, err := strconv.Atoi("0" + strings.TrimLeft(exponent, "+-")); err != nil || e > maxExponent ||
				len(mantissa) > maxDigits {
				return fmt.Errorf("the number %.40s… is out of all bounds", token)
			}
		}
	}
}
