package toml

import (
	"fmt"
	"strings"
)

// Place is a position in a file.
type Place struct {
	File string
	// Line and Column count from 1, the column in characters. Both are 0 for a value that is
	// not in the file.
	Line, Column int
	// Key is the whole key, such as "project.entry".
	Key string
}

// Errorf returns an error at the place, for faults that are found after reading the file.
// err is the cause and may be nil. The hint may be empty.
func (p Place) Errorf(err error, hint, format string, args ...any) *Error {
	return &Error{File: p.File, Line: p.Line, Column: p.Column, Key: p.Key, Message: fmt.Sprintf(format, args...),
		Hint: hint, Err: err}
}

// Setting is a value and its place.
type Setting[T any] struct {
	Value T
	Place
}

// Place returns the place of a value.
func (r *Reader) Place(v *Value) Place {
	line, column := v.Source.position(v.At)
	return Place{v.Source.Name, line, column, v.path()}
}

// PathKey returns the read function of a key whose value is a path.
func PathKey[T any](field func(*T) *Setting[string]) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		path, ok := r.Text(v, "a path")
		switch {
		case !ok:
		case strings.ContainsRune(path, 0):
			r.Fail(v, "", "%s contains a zero byte, expected a path", r.Label(v))
		default:
			*field(into) = Setting[string]{path, r.Place(v)}
		}
	}
}

// Notice is a warning that something in a file has no effect.
type Notice Error

// String returns one line: file:line:column: message; hint.
func (n *Notice) String() string { return (*Error)(n).Error() }
