package eval

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// encode returns the JSON of a value. Functions and handles are null.
func encode(v Value) json.RawMessage { return appendJSON(nil, v, 0) }

func appendJSON(to []byte, v Value, depth int) []byte {
	depth = nested(depth)
	array := func(elems []Value) []byte {
		to := appendEach(append(to, '['), ",", elems, func(to []byte, _ int, e Value) []byte {
			return appendJSON(to, e, depth)
		})
		return append(to, ']')
	}
	switch x := v.ref.(type) {
	case scalar:
		switch x {
		case intKind:
			return strconv.AppendInt(to, v.n, 10)
		case boolKind:
			return strconv.AppendBool(to, v.bool())
		case floatKind:
			if f := v.float(); math.IsNaN(f) || math.IsInf(f, 0) {
				return append(append(append(to, '"'), appendFloat(nil, f)...), '"')
			}
			return appendFloat(to, v.float())
		}
	case string:
		return appendQuoted(to, x)
	case *vector:
		return array(x.buf[:v.n])
	case *tuple:
		return array(x.elems)
	case *mapping:
		return appendMapping(to, x, depth)
	case *record:
		to = appendEach(append(to, '{'), ",", x.fields, func(to []byte, i int, f Value) []byte {
			return appendJSON(append(appendQuoted(to, x.kind.fields[i]), ':'), f, depth)
		})
		return append(to, '}')
	case *variant:
		switch {
		case x.kind == noneKind:
			return append(to, "null"...)
		case x.kind == someKind && !isNull(x.elems[0]):
			return appendJSON(to, x.elems[0], depth)
		case len(x.elems) == 0:
			return appendQuoted(to, x.kind.name)
		}
		to = append(appendQuoted(append(to, '{'), x.kind.name), ':')
		if len(x.elems) == 1 {
			to = appendJSON(to, x.elems[0], depth)
		} else {
			to = array(x.elems)
		}
		return append(to, '}')
	}
	return append(to, "null"...)
}

// appendEach appends elements with a separator between them.
func appendEach[T any](to []byte, separator string, elems []T, one func(to []byte, i int, e T) []byte) []byte {
	for i, e := range elems {
		if i > 0 {
			to = append(to, separator...)
		}
		to = one(to, i, e)
	}
	return to
}

// isNull reports whether values of the type of v can be null in JSON.
func isNull(v Value) bool {
	if x, is := v.ref.(*variant); is {
		return x.kind == noneKind || x.kind == someKind
	}
	return v.ref == unitKind
}

func appendMapping(to []byte, x *mapping, depth int) []byte {
	object := true
	for k := range x.all() {
		_, object = k.ref.(string)
		break
	}
	open, end := byte('{'), byte('}')
	if !object {
		open, end = '[', ']'
	}
	to = append(to, open)
	first := true
	for k, v := range x.all() {
		if !first {
			to = append(to, ',')
		}
		first = false
		if object {
			to = append(appendQuoted(to, k.text()), ':')
			to = appendJSON(to, v, depth)
			continue
		}
		to = append(appendJSON(append(to, '['), k, depth), ',')
		to = append(appendJSON(to, v, depth), ']')
	}
	return append(to, end)
}

// appendQuoted appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendQuoted(to []byte, s string) []byte {
	const hex = "0123456789abcdef"
	to = append(to, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			to = append(to, '\\', byte(r))
		case r == '\n':
			to = append(to, `\n`...)
		case r == '\t':
			to = append(to, `\t`...)
		case r == '\r':
			to = append(to, `\r`...)
		case r < 0x20:
			to = append(to, `\u00`...)
			to = append(to, hex[r>>4], hex[r&15])
		default:
			to = utf8.AppendRune(to, r)
		}
	}
	return append(to, '"')
}
