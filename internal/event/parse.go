package event

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// parse reads an event in the form in which MarshalJSON writes nearly all of them: known fields,
// each once, without spaces, with strings that need no escapes. It is several times as fast as
// package encoding/json. It returns false, and an event that must not be used, for any other
// form.
func (e *Event) parse(data []byte) bool {
	*e = Event{}
	rest, ok := bytes.CutPrefix(data, []byte("{"))
	if !ok {
		return false
	}
	var seen fieldSet
	for {
		var name, raw []byte
		if name, rest, ok = cutString(rest); !ok || len(rest) == 0 || rest[0] != ':' {
			return false
		}
		if raw, rest, ok = cutValue(rest[1:]); !ok || !e.set(string(name), raw, &seen) || len(rest) == 0 {
			return false
		}
		if rest[0] != ',' {
			return string(rest) == "}"
		}
		rest = rest[1:]
	}
}

// fieldSet has the fields that were read, each a bit.
type fieldSet uint16

// add reports whether a field is new.
func (s *fieldSet) add(field int) bool {
	before := *s
	*s |= 1 << field
	return *s != before
}

// set reads a field in its usual form. It returns false for any other form and for a second value.
func (e *Event) set(name string, raw []byte, seen *fieldSet) bool {
	switch name {
	case "seq":
		return seen.add(0) && number(raw, &e.Seq)
	case "epoch":
		return seen.add(1) && text(raw, &e.Epoch)
	case "time":
		return seen.add(2) && raw[0] == '"' && e.Time.UnmarshalJSON(raw) == nil
	case "type":
		return seen.add(3) && text(raw, (*string)(&e.Type))
	case "path":
		return seen.add(4) && text(raw, &e.Path)
	case "incarnation":
		return seen.add(5) && number(raw, &e.Incarnation)
	case "actor":
		return seen.add(6) && text(raw, &e.Actor)
	case "message":
		return seen.add(7) && text(raw, &e.Message)
	case "data":
		e.Data = bytes.Clone(raw)
		return seen.add(8) && string(raw) != "null" && raw[0] > ' ' && raw[len(raw)-1] > ' ' && json.Valid(raw)
	}
	return false
}

// text stores a string without escapes.
func text(raw []byte, into *string) bool {
	s, rest, ok := cutString(raw)
	*into = string(s)
	return ok && len(rest) == 0
}

// number stores a number without sign, fraction and exponent.
func number(raw []byte, into *uint64) bool {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	*into = n
	return err == nil && (raw[0] != '0' || len(raw) == 1)
}

// cutString returns the content of a string that data begins with, and what follows. It accepts
// no string with escapes.
func cutString(data []byte) (s, rest []byte, ok bool) {
	if len(data) == 0 || data[0] != '"' {
		return nil, nil, false
	}
	s = data[1:]
	for i, c := range s {
		switch {
		case c == '"':
			return s[:i], s[i+1:], utf8.Valid(s[:i])
		case c == '\\', c < ' ':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// cutValue returns the value that valid JSON begins with, and what follows. If data is not valid,
// the value may not be, either.
func cutValue(data []byte) (value, rest []byte, ok bool) {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return data[:i], data[i:], i > 0
			}
		case ',':
			if depth == 0 {
				return data[:i], data[i:], i > 0
			}
		}
	}
	return nil, nil, false
}
