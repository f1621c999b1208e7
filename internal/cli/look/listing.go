package look

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// listing shows things, each with its fields below it.
type listing struct {
	p     terminal.Paint
	width int
	lines []string
}

// head begins a thing.
func (l *listing) head(text string) {
	l.lines = append(l.lines, terminal.WrapAll([]string{text}, 2, l.width)...)
}

// field adds a field, unless it is empty.
func (l *listing) field(label, text string) {
	if text != "" {
		line := "  " + l.p.Dim(fmt.Sprintf("%-8s", label)) + plaintext.Line(text)
		l.lines = append(l.lines, terminal.WrapAll([]string{line}, 10, l.width)...)
	}
}
