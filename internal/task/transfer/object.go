package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// object is a JSON object that keeps the order of its members and the text of names and values.
type object []member

type member struct {
	name  string
	key   json.RawMessage // the name as it is written
	value json.RawMessage // without insignificant white space
	at    int             // offset of the value in the text
}

// positionError is an error with a position in a text.
type positionError struct {
	at int // offset in bytes
	error
}

func (p *positionError) Unwrap() error { return p.error }

// parseObject parses one JSON object and nothing else. The result shares memory with data.
func parseObject(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	if !json.Valid(data) {
		d := json.NewDecoder(bytes.NewReader(data))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, jsonError(err, len(data))
		}
		return nil, &positionError{int(d.InputOffset()), errors.New("something follows the object")}
	}
	return splitObject(data)
}

// splitObject is parseObject for data that is valid JSON.
func splitObject(data []byte) (object, error) {
	s := scanner{data: data}
	if s.skipSpace(); s.data[s.at] != '{' {
		return nil, fmt.Errorf("it is %.40s, expected a JSON object {...}", bytes.TrimSpace(data))
	}
	var o object
	seen := make(map[string]bool)
	for s.at++; ; s.at++ { // after the brace or a comma
		if s.skipSpace(); s.data[s.at] == '}' {
			return o, nil
		}
		m := member{key: s.value()}
		m.name = unquote(m.key)
		s.skipSpace() // and a colon
		s.at++
		s.skipSpace()
		m.at = s.at
		m.value = s.value()
		if seen[m.name] {
			return nil, &positionError{m.at, fmt.Errorf("member %q appears twice", m.name)}
		}
		seen[m.name] = true
		o = append(o, m)
		if s.skipSpace(); s.data[s.at] == '}' {
			return o, nil
		}
	}
}

// scanner splits valid JSON into its parts.
type scanner struct {
	data []byte
	at   int
}

// skipSpace skips white space, and reports whether there was any.
func (s *scanner) skipSpace() (some bool) {
	for ; s.at < len(s.data) && isSpace(s.data[s.at]); s.at++ {
		some = true
	}
	return some
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// value skips a value and returns it without insignificant white space.
func (s *scanner) value() json.RawMessage {
	from, depth, spaces := s.at, 0, false
	for {
		switch s.data[s.at] {
		case '"':
			for s.at++; s.data[s.at] != '"'; s.at++ {
				if s.data[s.at] == '\\' {
					s.at++
				}
			}
			s.at++
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ',', ':': // inside a value
			s.at++
		default: // a number, true, false or null
			for s.at < len(s.data) && !isSpace(s.data[s.at]) && bytes.IndexByte([]byte(",}]"), s.data[s.at]) < 0 {
				s.at++
			}
		}
		if depth == 0 {
			break
		}
		spaces = s.skipSpace() || spaces
	}
	value := s.data[from:s.at:s.at]
	if !spaces {
		return value
	}
	var small bytes.Buffer
	if err := json.Compact(&small, value); err != nil {
		return value // cannot happen with valid JSON
	}
	return small.Bytes()
}

// unquote returns the value of a JSON string, or "" if raw is not one.
func unquote(raw json.RawMessage) (text string) {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return ""
	}
	return text
}

// jsonError adds a position to a syntax error in a text of size bytes.
func jsonError(err error, size int) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &positionError{size, errors.New("the JSON ends in the middle")}
	case errors.As(err, &syntax):
		return &positionError{int(max(syntax.Offset, 1)) - 1, fmt.Errorf("it is not JSON: %w", err)}
	}
	return fmt.Errorf("it is not JSON: %w", err)
}

// find returns a member, nil if it is missing or null.
func (o object) find(name string) *member {
	for i, m := range o {
		if m.name == name && string(m.value) != "null" {
			return &o[i]
		}
	}
	return nil
}

// read reads a member into a value, which is unchanged if the member is missing.
func (o object) read(name, expected string, into any) error {
	m := o.find(name)
	if m == nil {
		return nil
	}
	if text, ok := into.(*string); ok && m.value[0] == '"' { // the most frequent case, without reflection
		*text = unquote(m.value)
		return nil
	}
	if err := json.Unmarshal(m.value, into); err != nil {
		return &positionError{m.at, fmt.Errorf("%s is %.60s, expected %s", name, m.value, expected)}
	}
	return nil
}

// set replaces the value of a member in place, or appends the member.
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
	*o = append(*o, member{name: name, key: plainJSON(name), value: raw})
}

func (o *object) remove(name string) {
	*o = slices.DeleteFunc(*o, func(m member) bool { return m.name == name })
}

// json returns the object as JSON text.
func (o object) json() json.RawMessage {
	b := append(make([]byte, 0, o.size()), '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, m.key...), ':'), m.value...)
	}
	return append(b, '}')
}

// size returns the length of the JSON text.
func (o object) size() int {
	n := len("{}") + max(0, len(o)-1)
	for _, m := range o {
		n += len(m.key) + len(":") + len(m.value)
	}
	return n
}

// plainJSON returns a value as JSON without unnecessary escapes.
func plainJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null") // cannot happen with the types in use
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
