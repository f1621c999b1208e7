// Package terminal writes text for people and programs: within the width of a terminal,
// without control sequences, and with a terminal restored after an agent has used it.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Size returns the width of a terminal in columns, 0 if it is unknown. ok reports whether w is a
// terminal that interprets control sequences.
func Size(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return width, true
}

// Paint colours text if it is on.
type Paint struct{ On bool }

// NewPaint colours text on a terminal, unless NO_COLOR is set (no-color.org).
func NewPaint(tty bool) Paint { return Paint{tty && os.Getenv("NO_COLOR") == ""} }

// SGR wraps text in a Select Graphic Rendition sequence.
func (p Paint) SGR(code, text string) string {
	if !p.On || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p Paint) Dim(text string) string    { return p.SGR("2", text) }
func (p Paint) Bold(text string) string   { return p.SGR("1", text) }
func (p Paint) Red(text string) string    { return p.SGR("31", text) }
func (p Paint) Green(text string) string  { return p.SGR("32", text) }
func (p Paint) Yellow(text string) string { return p.SGR("33", text) }
