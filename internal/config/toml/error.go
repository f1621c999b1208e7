package toml

import (
	"fmt"
	"strings"
	"unicode"
)

// Error is a fault in a configuration file.
type Error struct {
	File string
	// Line and Column count from 1, the column in characters. Both are 0 if
	// the file could not be read at all.
	Line, Column int
	// Key is what the fault is in, such as "agent[0].shutdown.grace"; "" for the file.
	Key string
	// Message says what is wrong and what was expected.
	Message string
	// Hint says what to do; it may be empty.
	Hint string
	// Err is the cause, if the file system is.
	Err error

	order int // of File among those that were read together
}

// Error returns one line: file:line:column: message; hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Message)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return printable(b.String())
}

func (e *Error) Unwrap() error { return e.Err }

// printable escapes what could harm a terminal; parts of messages come from files.
func printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Errors are all faults of a file and of those that it includes, sorted by place.
type Errors []*Error

// Error has a line for each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As find each of them.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}
