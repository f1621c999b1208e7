package terminal

import "os"

// Paint colours text, or leaves it as it is.
type Paint struct{ On bool }

// NewPaint paints on a terminal, unless NO_COLOR asks not to (no-color.org).
func NewPaint(tty bool) Paint { return Paint{tty && os.Getenv("NO_COLOR") == ""} }

func (p Paint) Sgr(code, text string) string {
	if !p.On || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p Paint) Dim(text string) string    { return p.Sgr("2", text) }
func (p Paint) Bold(text string) string   { return p.Sgr("1", text) }
func (p Paint) Red(text string) string    { return p.Sgr("31", text) }
func (p Paint) Green(text string) string  { return p.Sgr("32", text) }
func (p Paint) Yellow(text string) string { return p.Sgr("33", text) }
