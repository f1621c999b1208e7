package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/coppice-dev/coppice/internal/value"
)

// checker rejects schemas that would make the validator run without end.
type checker struct{ nodes map[string]*node } // by JSON pointer

// node is one schema in a schema.
type node struct {
	doc        any
	types      []string
	required   []string
	properties map[string]any
	ref        string   // pointer of the schema that it refers to; empty if it has no reference
	same       []string // pointers of schemas that apply to the same value
	parts      []string // pointers of the schemas that apply to parts of the value
	places     int      // 0 before it is counted; -1 while it is
}

// check returns the number of places of a schema.
func (c *checker) check(text value.Value) (places int, err error) {
	var doc any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return 0, err
	}
	if err := c.visit(doc, ""); err != nil {
		return 0, err
	}
	for _, pointer := range slices.Sorted(maps.Keys(c.nodes)) {
		if err := c.resolve(pointer); err != nil {
			return 0, err
		}
	}
	return c.count("")
}

// Kinds of keywords that hold schemas.
const (
	holdsOne   = 1 << iota // a schema
	holdsList              // a list of schemas
	holdsNamed             // an object of schemas
	holdsNames             // with holdsNamed: a list of names in place of a schema is allowed
	isPattern              // with holdsNamed: the names are regular expressions
	isSame                 // the schemas apply to the same value, not to parts of it
	isUnused               // the schemas apply only where they are referred to
)

// keywordKind returns the kind of a keyword, 0 if it holds no schema.
func keywordKind(name string) int {
	switch name {
	case "allOf", "anyOf", "oneOf":
		return holdsList | isSame
	case "not", "if", "then", "else":
		return holdsOne | isSame
	case "prefixItems":
		return holdsList
	case "items":
		return holdsOne | holdsList
	case "additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema", "contains",
		"additionalItems", "unevaluatedItems":
		return holdsOne
	case "properties":
		return holdsNamed
	case "patternProperties":
		return holdsNamed | isPattern
	case "dependentSchemas":
		return holdsNamed | isSame
	case "dependencies":
		return holdsNamed | holdsNames | isSame
	case "$defs", "definitions":
		return holdsNamed | isUnused
	}
	return 0
}

// visit adds a schema and those in it.
func (c *checker) visit(doc any, pointer string) error {
	n := &node{doc: doc}
	c.nodes[pointer] = n
	object, ok := doc.(map[string]any)
	if _, isBool := doc.(bool); isBool {
		return nil
	} else if !ok {
		return fault(pointer, "expected a schema, which is an object or a boolean")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := pointer + "/" + escape(name)
		if err := n.keyword(name, object[name], pointer, at); err != nil {
			return err
		}
		kind := keywordKind(name)
		if kind == 0 {
			continue
		}
		children, err := childrenOf(kind, object[name], at)
		if err != nil {
			return err
		}
		for _, child := range slices.Sorted(maps.Keys(children)) {
			if kind&isSame != 0 {
				n.same = append(n.same, child)
			} else if kind&isUnused == 0 {
				n.parts = append(n.parts, child)
			}
			if err := c.visit(children[child], child); err != nil {
				return err
			}
		}
	}
	return nil
}

// childrenOf returns the schemas that a keyword of a kind holds, by pointer.
func childrenOf(kind int, v any, at string) (map[string]any, error) {
	if kind&holdsOne != 0 {
		if _, isList := v.([]any); !isList || kind&holdsList == 0 {
			return map[string]any{at: v}, nil
		}
	}
	children := make(map[string]any)
	switch v := v.(type) {
	case map[string]any:
		if kind&holdsNamed == 0 {
			return nil, fault(at, "expected a list of schemas")
		}
		for name, child := range v {
			pointer := at + "/" + escape(name)
			if kind&isPattern != 0 {
				if err := checkPattern(name); err != nil {
					return nil, fault(pointer, err.Error())
				}
			}
			if _, isNames := child.([]any); !isNames || kind&holdsNames == 0 {
				children[pointer] = child
			}
		}
	case []any:
		if kind&holdsList == 0 {
			return nil, fault(at, "expected an object of schemas")
		}
		for i, child := range v {
			children[fmt.Sprintf("%s/%d", at, i)] = child
		}
	default:
		return nil, fault(at, "expected schemas")
	}
	return children, nil
}

// keyword checks and notes a keyword that holds no schema.
func (n *node) keyword(name string, v any, pointer, at string) error {
	text, isText := v.(string)
	switch name {
	case "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$recursiveAnchor":
		return fault(at, "is not supported; refer to a part by its pointer, such as \"#/$defs/step\"")
	case "$id":
		if pointer != "" {
			return fault(at, "is supported only at the root")
		}
	case "$schema":
		known := []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#",
			"https://json-schema.org/draft-07/schema#"}
		if pointer != "" || !slices.Contains(known, text) {
			return fault(at, fmt.Sprintf("is %.80q, expected one of %q, at the root", text, known))
		}
	case "$ref":
		if !isText || text == "" {
			return fault(at, "expected a reference such as \"#/$defs/step\"")
		}
		n.ref = text
	case "type":
		n.types = texts(v)
		if isText {
			n.types = []string{text}
		}
		known := []string{"array", "boolean", "integer", "null", "number", "object", "string"}
		for _, name := range n.types {
			if !slices.Contains(known, name) {
				return fault(at, fmt.Sprintf("unknown type %.40q, expected one of %s", name, strings.Join(known, ", ")))
			}
		}
	case "required":
		n.required = texts(v)
	case "properties":
		n.properties, _ = v.(map[string]any)
	case "pattern":
		if err := checkPattern(text); err != nil {
			return fault(at, err.Error())
		}
	}
	return nil
}

// texts returns the strings of a list.
func texts(v any) (texts []string) {
	list, _ := v.([]any)
	for _, v := range list {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// checkPattern rejects regular expressions that make matching slow.
func checkPattern(text string) error {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(re.Simplify())
	if err == nil && len(program.Inst) > maxPattern {
		err = errors.New("the regular expression is too large")
	}
	return err
}

// resolve finds the schema that a schema refers to.
func (c *checker) resolve(pointer string) error {
	n := c.nodes[pointer]
	if n.ref == "" {
		return nil
	}
	target, ok := strings.CutPrefix(n.ref, "#")
	if !ok {
		return fault(pointer+"/$ref", fmt.Sprintf("%.80q is another document, which is never read", n.ref))
	}
	target, err := url.PathUnescape(target)
	if err != nil || c.nodes[target] == nil {
		return fault(pointer+"/$ref", fmt.Sprintf("%.80q is not a part of this schema", n.ref))
	}
	n.same = append(n.same, target)
	return nil
}

// count returns the number of places of a schema. It fails if the schema contains itself.
func (c *checker) count(pointer string) (int, error) {
	n := c.nodes[pointer]
	switch {
	case n.places < 0:
		return 0, fault(pointer, "the schema contains itself, through $ref; answers of any depth are not supported")
	case n.places > 0:
		return n.places, nil
	}
	n.places = -1
	places := 1
	for _, part := range slices.Concat(n.same, n.parts) {
		more, err := c.count(part)
		if err != nil {
			return 0, err
		}
		if places += more; places > maxPlaces {
			return 0, fmt.Errorf("with its references, it has more than %d places", maxPlaces)
		}
	}
	n.places = places
	return places, nil
}

// parse returns the error of the validator's package for this schema alone.
func (n *node) parse() error {
	text, err := json.Marshal(n.doc)
	if err == nil {
		err = json.Unmarshal(text, new(jsonschema.Schema))
	}
	return err
}

// fault returns an error with the pointer of its place.
func fault(pointer, text string) error {
	if pointer == "" {
		return errors.New(text)
	}
	return errors.New(pointer + ": " + text)
}

// escape prepares a name for a JSON pointer (RFC 6901).
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
