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
	// Key is the whole key of the faulty value, such as "agent[0].shutdown.grace"; "" for the file.
	Key string
	// Message states the fault and what was expected.
	Message string
	// Hint is a remedy; it may be empty.
	Hint string
	// Err is the cause, if it comes from the file system.
	Err error

	order int // position of File among the files that were read together
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

// printable escapes characters that could harm a terminal; parts of messages come from files.
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

// Errors are all faults of a file and of the files that it includes, sorted by place.
type Errors []*Error

// Error returns one line for each fault.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults, for errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}
