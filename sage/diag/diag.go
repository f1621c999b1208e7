// Package diag represents the diagnostics of a program: errors and warnings with a position and a
// remedy.
package diag

import (
	"cmp"
	"slices"

	"github.com/coppice-dev/coppice/sage/source"
)

// Severity tells whether a program with a diagnostic can run.
type Severity uint8

// The severities.
const (
	Error   Severity = iota // the program does not run
	Warning                 // the program runs, but may not do what was meant
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Diagnostic is one message about one place.
type Diagnostic struct {
	Span     source.Span
	Code     string // such as E061; "" if it has none
	Severity Severity
	Message  string // one line in plain words, lower case, no full stop
	Help     string // a remedy, of one or more lines; "" if none is known
	Related  []Related
}

// Related is another place that is connected with a diagnostic.
type Related struct {
	Span    source.Span
	Message string
}

// Error returns the position and the message in one line.
func (d Diagnostic) Error() string {
	return d.Span.Position().String() + ": " + d.Message
}

// HasErrors reports whether any diagnostic is an error.
func HasErrors(diagnostics []Diagnostic) bool {
	return slices.ContainsFunc(diagnostics, func(d Diagnostic) bool { return d.Severity == Error })
}

// Sort orders diagnostics by file name and position. It is stable.
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
