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

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
)

// Streams holds where a command reads and writes, and how.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
	JSON     bool // JSON is asked for, see JSONFlag
}

// JSONFlag adds the flag that asks for JSON.
func (s *Streams) JSONFlag(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&s.JSON, "json", false, "print "+what)
}

// Print prints a value as JSON if that is asked for, or else as lines for people: in colour
// if p is on, and at most so many columns wide if width is positive.
func (s *Streams) Print(v any, lines func(p terminal.Paint, width int) []string) error {
	if s.JSON {
		return s.PrintJSON(v)
	}
	return s.PrintLines(lines(s.Paint())...)
}

// Paint returns how the output is painted, and its width in columns; 0 if that is unknown.
func (s *Streams) Paint() (p terminal.Paint, width int) {
	width, tty := terminal.Size(s.Out)
	return terminal.NewPaint(tty), width
}

// PrintLine prints a value as JSON if that is asked for, or else as a line.
func (s *Streams) PrintLine(v any, line string) error {
	return s.Print(v, func(terminal.Paint, int) []string { return []string{line} })
}

// PrintJSON prints one value, indented on a terminal.
func (s *Streams) PrintJSON(v any) error {
	e := json.NewEncoder(terminal.InertWriter{W: s.Out})
	e.SetEscapeHTML(false)
	if _, tty := terminal.Size(s.Out); tty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// PrintLines prints lines.
func (s *Streams) PrintLines(lines ...string) error {
	_, err := io.WriteString(s.Out, strings.Join(lines, "\n")+"\n")
	return err
}

// Complain prints an error or a warning, wrapped where a terminal shows it.
func (s *Streams) Complain(message string) {
	width, _ := terminal.Size(s.Err)
	io.WriteString(s.Err, strings.Join(terminal.WrapAll(strings.Split("coppice: "+message, "\n"), 4, width), "\n")+"\n")
}

// ReadText reads a text of at most so many bytes from the standard input.
func (s *Streams) ReadText(most int, what string) (string, error) {
	return ReadText(s.In, "the standard input", most, what)
}

// ReadText reads a text of at most so many bytes. Errors name its source and what it is for.
func ReadText(from io.Reader, source string, most int, what string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the %s from %s: %w", what, source, err)
	case len(text) > most:
		return "", Usagef("%s has more than %d bytes, the limit of a %s", source, most, what)
	case !utf8.Valid(text):
		return "", Usagef("the %s in %s is not UTF-8", what, source)
	}
	return strings.TrimRight(string(text), "\n"), nil
}
