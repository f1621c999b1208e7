package cli

import (
	"os"
)

// paint colours text, or leaves it as it is.
type paint struct{ on bool }

// newPaint paints on a terminal, unless NO_COLOR asks not to (no-color.org).
func newPaint(tty bool) paint { return paint{tty && os.Getenv("NO_COLOR") == ""} }

func (p paint) sgr(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p paint) dim(text string) string    { return p.sgr("2", text) }
func (p paint) bold(text string) string   { return p.sgr("1", text) }
func (p paint) red(text string) string    { return p.sgr("31", text) }
func (p paint) green(text string) string  { return p.sgr("32", text) }
func (p paint) yellow(text string) string { return p.sgr("33", text) }
