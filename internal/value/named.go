package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Named maps names to values. Reading it from JSON is as strict as Parse: it rejects duplicate
// names, and errors name the faulty value.
type Named map[string]Value

// ParseAll parses each of the texts.
func ParseAll(texts map[string]string) (Named, error) {
	all := make(Named, len(texts))
	for name, text := range texts {
		v, err := Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		all[name] = v
	}
	return all, nil
}

// UnmarshalJSON reads an object.
func (m *Named) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte(Null)) {
		*m = nil
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("expected an object of names and values")
	}
	*m = make(Named)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name := t.(string) // keys in JSON are strings
		if _, twice := (*m)[name]; twice {
			return fmt.Errorf("the name %.130q is there twice, expected once", name)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		v, err := Parse(raw)
		if err != nil {
			return fmt.Errorf("the value of %.130q: %w", name, err)
		}
		(*m)[name] = v
	}
	return nil
}
