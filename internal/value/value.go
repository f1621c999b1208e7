// Package value holds JSON values from other programs in a form that is safe to store and pass
// on. Values are bounded, unambiguous for all readers, exact to the last digit, and typed.
package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of a value.
const (
	MaxBytes    = 512 << 10 // of the compact text; a record with it fits into every store
	MaxDepth    = 100       // nested lists and maps
	maxDigits   = 1000      // characters of a number
	maxExponent = 9999      // of a number such as 1e9999
)

// Value is compact JSON text that Parse has checked. "" is no value. Numbers are kept as
// written, never converted to a float.
type Value string

// Null is JSON's null.
const Null Value = "null"

// Error reports text that is not an acceptable value.
type Error struct {
	Line, Column int // from 1; the column counts bytes
	Message      string
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

// LimitError reports something that exceeds a limit.
type LimitError struct {
	What      string // such as "a value of a belief"
	Have, Max int
	Unit      string // such as "bytes"
	Hint      string // a remedy; may be empty
}

func (e *LimitError) Error() string {
	s := fmt.Sprintf("%s has %d %s, at most %d are allowed", e.What, e.Have, e.Unit, e.Max)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Parse checks JSON text and returns it without insignificant white space. The error is a
// *LimitError if the value is too large. It is an *Error for text that is not exactly one JSON
// value or not UTF-8, for excessive nesting, duplicate keys and out-of-range numbers.
func Parse(text []byte) (Value, error) {
	if len(text) > 2*MaxBytes { // even if much of it is white space
		return "", TooLarge(len(text))
	}
	if at := invalidUTF8(text); at >= 0 {
		return "", errorAt(text, at, "the byte 0x%02x is not UTF-8", text[at])
	}
	if !json.Valid(text) {
		var raw json.RawMessage // its error has the offset
		return "", syntaxError(text, json.Unmarshal(text, &raw))
	}
	if scalar := bytes.Trim(text, " \t\r\n"); scalar[0] != '{' && scalar[0] != '[' { // like most values
		if err := checkScalar(text, scalar); err != nil {
			return "", err
		}
		return Value(scalar), nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return "", syntaxError(text, err)
	}
	if compact.Len() > MaxBytes {
		return "", TooLarge(compact.Len())
	}
	if err := check(text); err != nil {
		return "", err
	}
	return Value(compact.String()), nil
}

// checkScalar checks a value that is not a list or map.
func checkScalar(text, scalar []byte) error {
	if len(scalar) > MaxBytes {
		return TooLarge(len(scalar))
	}
	if c := scalar[0]; c == '-' || '0' <= c && c <= '9' {
		if wrong := checkNumber(string(scalar)); wrong != "" {
			return errorAt(text, bytes.IndexByte(text, c), "%s", wrong)
		}
	}
	return nil
}

// TooLarge returns the error for a value that has too many bytes.
func TooLarge(bytes int) error {
	return &LimitError{What: "a value", Have: bytes, Max: MaxBytes, Unit: "bytes",
		Hint: "keep it in a file and its path in the belief"}
}

// Text returns the value of a string.
func Text(s string) (Value, error) {
	if at := invalidUTF8([]byte(s)); at >= 0 {
		return "", errorAt([]byte(s), at, "the byte 0x%02x is not UTF-8", s[at])
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return "", err
	}
	v := Value(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	if len(v) > MaxBytes {
		return "", TooLarge(len(v))
	}
	return v, nil
}

// Raw returns the text of a string. ok is false for other values.
func (v Value) Raw() (text string, ok bool) {
	ok = Of(v) == String && json.Unmarshal([]byte(v), &text) == nil
	return text, ok
}

// MarshalJSON returns the value; null if there is none.
func (v Value) MarshalJSON() ([]byte, error) {
	if v == "" {
		return []byte(Null), nil
	}
	return []byte(v), nil
}

// UnmarshalJSON parses a value.
func (v *Value) UnmarshalJSON(text []byte) (err error) {
	*v, err = Parse(text)
	return err
}

// Brief returns the value for a message: at most most bytes of it, followed by its size if
// that is not all. Unprintable characters are escaped.
func (v Value) Brief(most int) string {
	if len(v) <= most {
		return printable(string(v))
	}
	for most > 0 && !utf8.RuneStart(v[most]) {
		most--
	}
	return fmt.Sprintf("%s... (%d bytes)", printable(string(v[:most])), len(v))
}

func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 1<<16:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		}
	}
	return b.String()
}

func invalidUTF8(text []byte) int {
	if utf8.Valid(text) { // which is faster
		return -1
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

func errorAt(text []byte, at int, format string, args ...any) *Error {
	before := text[:min(at, len(text))]
	line := bytes.Count(before, []byte("\n")) + 1
	return &Error{Line: line, Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Message: fmt.Sprintf(format, args...)}
}

func syntaxError(text []byte, err error) error {
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return errorAt(text, 0, "not JSON: %v", err)
	}
	at := int(e.Offset)
	if at > 0 && !strings.HasPrefix(e.Error(), "unexpected end") {
		at-- // the offset is that after the faulty byte
	}
	return errorAt(text, at, "not JSON: %v", e)
}

// level is an open list or map.
type level struct {
	keys map[string]bool // of a map
	key  bool            // whether the next token is a key
}

// check reports valid JSON that is not acceptable.
func check(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var open []level
	for {
		from := int(d.InputOffset())
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return syntaxError(text, err)
		}
		at := from + bytes.IndexFunc(text[from:], func(r rune) bool { return !strings.ContainsRune(" \t\r\n,:", r) })
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				if len(open) == MaxDepth {
					return errorAt(text, at, "lists and maps are nested more than %d levels deep", MaxDepth)
				}
				next := level{key: t == '{'}
				if next.key {
					next.keys = make(map[string]bool)
				}
				open = append(open, next)
				continue
			}
			open = open[:len(open)-1]
		case json.Number:
			if wrong := checkNumber(t.String()); wrong != "" {
				return errorAt(text, at, "%s", wrong)
			}
		case string:
			if n := len(open); n > 0 && open[n-1].key {
				if open[n-1].keys[t] {
					return errorAt(text, at, "the key %.60q is there twice, expected once", t)
				}
				open[n-1].keys[t] = true
				open[n-1].key = false
				continue
			}
		}
		if n := len(open); n > 0 && open[n-1].keys != nil {
			open[n-1].key = true
		}
	}
}

// checkNumber returns the fault of a number, or "".
func checkNumber(text string) string {
	if len(text) > maxDigits {
		return fmt.Sprintf("a number of %d characters, at most %d are allowed; write it as a string", len(text),
			maxDigits)
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if n, err := strconv.Atoi(text[i+1:]); err != nil || n < -maxExponent || n > maxExponent {
			return fmt.Sprintf("the exponent of %.30s is out of range, expected at most %d; write it as a string",
				text, maxExponent)
		}
	}
	return ""
}
