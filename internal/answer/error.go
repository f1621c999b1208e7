package answer

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Kind says why a text has no answer.
type Kind uint8

const (
	NoValue   Kind = iota // there is no JSON, or only what looks like prose
	Malformed             // the answer cannot be read: it is cut off, not JSON, or not unambiguous JSON
	Mismatch              // JSON was found, but it does not fit the schema
	Ambiguous             // several values fit, and they differ
	TooLarge              // the text, or what would have to be checked of it, exceeds a limit
)

// Bounds of the texts of errors, in bytes.
const (
	maxReason = 400
	maxError  = 800
)

// Error says why a text has no answer, so that the next attempt can do better.
type Error struct {
	Kind Kind
	// Line and Column are the position in the text of the value that comes closest: the last one
	// that looks like an answer, else the longest one. Both count from 1, and columns count
	// characters. They are 0 if there is no such value.
	Line, Column int
	Pointer      string // JSON pointer of the first fault within that value, for Mismatch
	Reason       string // what is wrong with it, with pointers or positions; one plain line of at most 400 bytes
	Expected     string // the expected form in words; one plain line
	Candidates   int    // number of values that were looked at
}

// Error returns one plain line of at most 800 bytes, without control characters.
func (e *Error) Error() string {
	text := e.Reason
	if e.Line > 0 {
		text = fmt.Sprintf("the value at %d:%d %s", e.Line, e.Column, e.Reason)
	}
	if e.Candidates > 1 {
		text += fmt.Sprintf(" (%d candidates)", e.Candidates)
	}
	return plaintext.OneLine(text+"; expected "+e.Expected, maxError)
}
