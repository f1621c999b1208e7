// Package command has what all commands share: streams, exit codes, and calls of the daemon.
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

// Streams are the input and outputs of a command.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
	JSON     bool // print JSON; set by the flag that JSONFlag adds
}

// JSONFlag adds --json; what describes the JSON.
func (s *Streams) JSONFlag(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&s.JSON, "json", false, "print "+what)
}

// Print prints v as JSON with --json, and otherwise the lines. width is 0 if it is unknown.
func (s *Streams) Print(v any, lines func(p terminal.Paint, width int) []string) error {
	if s.JSON {
		return s.PrintJSON(v)
	}
	return s.PrintLines(lines(s.Paint())...)
}

// Paint returns the paint for the output, and its width in columns; 0 if that is unknown.
func (s *Streams) Paint() (p terminal.Paint, width int) {
	width, tty := terminal.Size(s.Out)
	return terminal.NewPaint(tty), width
}

// PrintLine prints v as JSON with --json, and otherwise a line.
func (s *Streams) PrintLine(v any, line string) error {
	return s.Print(v, func(terminal.Paint, int) []string { return []string{line} })
}

// PrintJSON prints v as JSON, indented on a terminal.
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

// Complain prints an error or a warning, wrapped to the width of the terminal.
func (s *Streams) Complain(message string) {
	width, _ := terminal.Size(s.Err)
	io.WriteString(s.Err, strings.Join(terminal.WrapAll(strings.Split("coppice: "+message, "\n"), 4, width), "\n")+"\n")
}

// ReadText reads at most that many bytes of UTF-8 from standard input.
func (s *Streams) ReadText(most int, what string) (string, error) {
	return ReadText(s.In, "the standard input", most, what)
}

// ReadText reads at most that many bytes of UTF-8, without trailing newlines. Errors name the
// source and what the text is for.
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
