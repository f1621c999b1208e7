// Package diag represents diagnostics of a program: errors and warnings with their
// place and a remedy.
package diag

import (
	"cmp"
	"slices"

	"github.com/coppice-dev/coppice/sage/source"
)

// Severity says whether a program with a diagnostic can run.
type Severity uint8

// The severities.
const (
	Error   Severity = iota // the program does not run
	Warning                 // it does, and may not do what was meant
)

// String is "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Diagnostic is one thing to say about one place.
type Diagnostic struct {
	Span     source.Span
	Code     string // such as E061; "" if it has none
	Severity Severity
	Message  string // one line in plain words, lower case, no full stop
	Help     string // what to do, "" if nothing is known; may have several lines
	Related  []Related
}

// Related is another place that has to do with a diagnostic.
type Related struct {
	Span    source.Span
	Message string
}

// Error is the diagnostic in one line: its place and its message.
func (d Diagnostic) Error() string {
	return d.Span.Position().String() + ": " + d.Message
}

// HasErrors reports whether one of them is an error.
func HasErrors(diagnostics []Diagnostic) bool {
	return slices.ContainsFunc(diagnostics, func(d Diagnostic) bool { return d.Severity == Error })
}

// Sort puts diagnostics into the order of the text: by file name, then by
// place; those of one place stay as they are.
func Sort(diagnostics []Diagnostic) {
	slices.SortStableFunc(diagnostics, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(name(a.Span), name(b.Span)),
			cmp.Compare(a.Span.Start, b.Span.Start),
		)
	})
}

func name(s source.Span) string {
	if s.File == nil {
		return ""
	}
	return s.File.Name
}
