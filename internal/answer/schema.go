// Package answer finds the answer of a language model that fits a JSON Schema. Models wrap it in
// Markdown or prose, think aloud or quote an example first, write trailing commas, and are cut off.
//
// A wrong answer costs more than a rejected one, which only has to be asked for again. So Find
// takes a value only if there is no doubt that it is the answer, and says otherwise what was
// expected.
package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/answer/schema"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/value"
)

// Limits of a schema.
const (
	MaxSchema  = 64 << 10 // bytes of its text
	maxPlaces  = 1000     // schemas in it, each counted once for every way to it
	maxPattern = 1000     // instructions of a compiled regular expression
)

// Schema is the form of an answer. It is safe for concurrent use.
type Schema struct {
	schema   *schema.Schema
	places   int
	names    []string // properties of the answer, by which an object is recognized as an attempt at it
	list     bool     // the answer may be an array
	expected string   // the form in words
}

// ParseSchema parses a JSON Schema: draft 2020-12, or draft 7 if $schema names it. Errors name the
// place as a JSON pointer, or as line:column in a text that is not JSON.
//
// A reference must be to a part of the same schema ("#/$defs/step"). No schema may contain itself,
// so that every answer is checked in bounded time. Dynamic references, anchors, and $id below the
// root are not supported.
func ParseSchema(text []byte) (*Schema, error) {
	if len(text) > MaxSchema {
		return nil, fmt.Errorf("schema: has %d bytes, at most %d are allowed", len(text), MaxSchema)
	}
	doc, err := value.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c := checker{nodes: make(map[string]*node)}
	places, err := c.check(doc)
	if err != nil {
		return nil, fmt.Errorf("schema: %s", plaintext.OneLine(err.Error(), maxReason))
	}
	compiled, err := schema.Compile([]byte(doc))
	if err != nil {
		return nil, fmt.Errorf("schema: %s", plaintext.OneLine(c.locate(err).Error(), maxReason))
	}
	s := &Schema{schema: compiled, places: places}
	names := make(map[string]bool)
	s.list = c.form("", names)
	s.names = slices.Sorted(maps.Keys(names))
	s.expected = c.describe()
	return s, nil
}

// form adds the properties of the answer to names, and reports whether the answer may be an array.
func (c *checker) form(pointer string, names map[string]bool) (list bool) {
	n := c.nodes[pointer]
	for name := range n.properties {
		names[name] = true
	}
	list = slices.Contains(n.types, "array")
	for _, part := range n.same {
		list = c.form(part, names) || list
	}
	return list
}

// describe returns the form of the answer in words, such as: an object with "steps", "title".
func (c *checker) describe() string {
	n := c.nodes[""]
	for len(n.types) == 0 && len(n.same) == 1 {
		n = c.nodes[n.same[0]]
	}
	if len(n.types) == 0 {
		return "a JSON value of the schema"
	}
	text := "JSON of type " + strings.Join(n.types, " or ")
	if len(n.required) > 0 {
		text += fmt.Sprintf(" with %q", n.required[:min(len(n.required), 10)])
	}
	return plaintext.OneLine(text, 200)
}

// locate adds to an error of the validator the pointer of the innermost part that it rejects.
func (c *checker) locate(err error) error {
	pointers := slices.SortedFunc(maps.Keys(c.nodes), func(a, b string) int {
		return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), strings.Compare(a, b))
	})
	for _, pointer := range pointers {
		if err := c.nodes[pointer].parse(); err != nil {
			return fault(pointer, err.Error())
		}
	}
	return err
}
