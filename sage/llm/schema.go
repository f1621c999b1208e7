package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/answer/schema"
)

// compile parses a schema. An invalid schema is a fault of the caller.
func compile(text json.RawMessage) (*schema.Schema, error) {
	s, err := schema.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the schema of the answer: %w", err)
	}
	return s, nil
}

// read returns the JSON value in a text, if it is valid. Its error tells a model how to correct
// it.
func read(s *schema.Schema, text string) (json.RawMessage, error) {
	raw, err := Extract(text)
	if err != nil {
		return nil, err
	}
	if err := checkBounds(raw); err != nil {
		return nil, err
	}
	return raw, validate(s, raw)
}

// validate returns an error with all faults of a value and their paths.
func validate(s *schema.Schema, raw json.RawMessage) error {
	if err := s.Validate(raw); err != nil {
		return errors.New(cut(err.Error(), maxReason))
	}
	return nil
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
