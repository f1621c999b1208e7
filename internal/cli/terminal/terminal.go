// Package terminal writes text for people and programs: within the width of a terminal,
// without control sequences, and with a terminal restored after an agent has used it.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Size returns the width of a terminal in columns, 0 if it is unknown, and whether w is a
// terminal that shows text as it is written.
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
