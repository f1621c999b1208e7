// Package screen draws what programs write to a terminal: bytes in, lines with colours out.
package screen

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// Sizes of a Screen, in characters.
const (
	DefaultRows, DefaultCols = 24, 80
	MaxRows, MaxCols         = 200, 500
)

// maxCount bounds how often a sequence repeats something. The emulator would take minutes for the largest number.
const maxCount = MaxCols

// Screen is the screen of a terminal. It answers nothing that a program asks of its terminal, and keeps no lines that
// have left the screen. It is not safe for concurrent use.
type Screen struct {
	rows, cols int
	terminal   *vt.Emulator
}

// New returns an empty screen. A size outside of 1 to MaxRows and MaxCols becomes the nearest one in there.
func New(rows, cols int) *Screen {
	s := &Screen{rows: min(max(rows, 1), MaxRows), cols: min(max(cols, 1), MaxCols)}
	s.clear()
	return s
}

// Size returns the number of rows and columns.
func (s *Screen) Size() (rows, cols int) { return s.rows, s.cols }

// clear makes an emulator in its first state.
func (s *Screen) clear() {
	s.terminal = vt.NewEmulator(s.cols, s.rows)
	s.terminal.SetScrollbackSize(1)
	if answers, ok := s.terminal.InputPipe().(*io.PipeWriter); ok {
		answers.Close() // an answer would wait for a reader
	}
	for _, command := range "IXZb" { // tabs, erase, tabs back, repeat
		s.terminal.RegisterCsiHandler(int(command), func(params ansi.Params) (ignore bool) {
			params.ForEach(0, func(_, n int, _ bool) { ignore = ignore || n > maxCount })
			return ignore
		})
	}
}

// Write draws what a program has written. Of what the emulator cannot handle, the screen becomes empty.
func (s *Screen) Write(p []byte) (n int, err error) {
	defer func() {
		if recover() != nil { // of the emulator, about text that may be malicious
			s.clear()
			n, err = len(p), nil
		}
	}()
	s.terminal.Write(p)
	return len(p), nil
}

// Lines returns the rows without the empty ones at the end. They have escape sequences for colours, and those for links
// that the program has written.
func (s *Screen) Lines() (lines []string) {
	defer func() {
		if recover() != nil {
			s.clear()
			lines = nil
		}
	}()
	lines = strings.Split(s.terminal.Render(), "\n")
	for len(lines) > 0 && strings.TrimSpace(ansi.Strip(lines[len(lines)-1])) == "" {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, "\r")
	}
	return lines
}
