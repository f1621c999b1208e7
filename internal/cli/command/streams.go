// Package command is what all commands share: where they read and write, how they end, and how
// they reach the daemon of a project.
package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
}

// PrintJSON prints one value, indented for who looks at it.
func (s *Streams) PrintJSON(v any) error {
	e := json.NewEncoder(terminal.InertWriter{W: s.Out})
	e.SetEscapeHTML(false)
	if _, tty := terminal.Size(s.Out); tty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// PrintLines prints lines.
func (s *Streams) PrintLines(lines []string) error {
	_, err := io.WriteString(s.Out, strings.Join(lines, "\n")+"\n")
	return err
}

// PrintText prints lines, wrapped where a terminal shows them.
func (s *Streams) PrintText(lines []string, hang int) error {
	width, _ := terminal.Size(s.Out)
	return s.PrintLines(terminal.WrapAll(lines, hang, width))
}

// Complain prints an error or a warning, wrapped where a terminal shows it.
func (s *Streams) Complain(message string) {
	width, _ := terminal.Size(s.Err)
	io.WriteString(s.Err, strings.Join(terminal.WrapAll(strings.Split("coppice: "+message, "\n"), 4, width), "\n")+"\n")
}

// ReadText reads the standard input, of at most so many bytes.
func (s *Streams) ReadText(most int, what string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(s.In, int64(most)+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the %s from the standard input: %w", what, err)
	case len(text) > most:
		return "", Usagef("the standard input has more than %d bytes, which a %s may have", most, what)
	case !utf8.Valid(text):
		return "", Usagef("the %s on the standard input is not UTF-8", what)
	}
	return strings.TrimRight(string(text), "\n"), nil
}
