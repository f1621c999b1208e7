package work

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// object is a JSON object whose members keep their order, and their values as
// they were written.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

// parseObject reads one object and nothing else.
func parseObject(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	t, err := d.Token()
	if err != nil {
		return nil, jsonError(err)
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("it is %.40s, expected a JSON object {...}", bytes.TrimSpace(data))
	}
	var o object
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, jsonError(err)
		}
		name, _ := t.(string)
		if seen[name] {
			return nil, fmt.Errorf("%q is in it twice", name)
		}
		seen[name] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, jsonError(err)
		}
		var small bytes.Buffer
		if err := json.Compact(&small, raw); err != nil {
			return nil, jsonError(err)
		}
		o = append(o, member{name, small.Bytes()})
	}
	if _, err := d.Token(); err != nil {
		return nil, jsonError(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return o, nil
}

func jsonError(err error) error {
	var syntax *json.SyntaxError
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return errors.New("it ends in the middle of the JSON")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is no JSON: byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("it is no JSON: %w", err)
}

// get is the value of a member, nil if it is not there or null.
func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name && string(m.value) != "null" {
			return m.value
		}
	}
	return nil
}

// read reads a member into a value, which stays as it is if there is none.
func (o object) read(name, expected string, into any) error {
	raw := o.get(name)
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s is %.60s, expected %s", name, raw, expected)
	}
	return nil
}

// set replaces the value of a member where it is, or adds it at the end.
func (o *object) set(name string, value any) {
	raw, ok := value.(json.RawMessage)
	if !ok {
		raw = plainJSON(value)
	}
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = raw
			return
		}
	}
	*o = append(*o, member{name, raw})
}

func (o *object) remove(name string) {
	*o = slices.DeleteFunc(*o, func(m member) bool { return m.name == name })
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, plainJSON(m.name)...), ':')
		b = append(b, m.value...)
	}
	return append(b, '}'), nil
}

// plainJSON is a value as JSON, in which no character is escaped that need not be.
func plainJSON(v any) json.RawMessage {
	if o, ok := v.(object); ok {
		raw, _ := o.MarshalJSON() // as they came
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null") // none of ours
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
