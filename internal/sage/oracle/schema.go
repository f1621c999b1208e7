package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a compiled one.
type schema struct{ *jsonschema.Schema }

const schemaName = "answer.json"

// compile fails for a schema that is none, which is a fault of who asks.
func compile(raw json.RawMessage) (schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return schema{}, fmt.Errorf("the schema of the answer is not valid JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaName, doc); err != nil {
		return schema{}, fmt.Errorf("the schema of the answer: %w", err)
	}
	s, err := c.Compile(schemaName)
	if err != nil {
		return schema{}, fmt.Errorf("the schema of the answer: %w", err)
	}
	return schema{s}, nil
}

// noLoader keeps a schema from reading files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document, and only this one is read", url)
}

// read returns the value in the text, if it is valid. Its error says to a model
// what is wrong.
func (s schema) read(text string) (json.RawMessage, error) {
	raw, err := Extract(text)
	if err != nil {
		return nil, err
	}
	if err := sane(raw); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return raw, s.validate(doc)
}

func (s schema) validate(doc any) error {
	err := s.Validate(doc)
	if err == nil {
		return nil
	}
	// Its first line says that there is an error and names the schema; the others are what is wrong.
	_, lines, ok := strings.Cut(err.Error(), "\n")
	if !ok {
		return errors.New(quote(err.Error()))
	}
	var all []string
	for line := range strings.Lines(lines) {
		all = append(all, strings.TrimPrefix(strings.TrimSpace(line), "- "))
	}
	return errors.New(cut(strings.Join(all, "; "), maxReason))
}

// Bounds of values. The validator is exact: it would write out 1e999999999.
const (
	maxNesting  = 200
	maxExponent = 1000
	maxDigits   = 1000
)

// sane refuses values that are valid JSON and made to do harm, and objects
// with two values for one name, of which readers would take one or the other.
func sane(raw json.RawMessage) error {
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
			return nil // the end; that it is valid is known
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
			if e, err := strconv.Atoi("0" + strings.TrimLeft(exponent, "+-")); err != nil || e > maxExponent || len(mantissa) > maxDigits {
				return fmt.Errorf("the number %.40s… is out of all bounds", token)
			}
		}
	}
}
