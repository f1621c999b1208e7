package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
)

// streams are where a command reads and writes.
type streams struct {
	in       *os.File
	out, err io.Writer
}

// printJSON prints one value, indented for who looks at it.
func (s *streams) printJSON(v any) error {
	e := json.NewEncoder(terminal.InertWriter{W: s.out})
	e.SetEscapeHTML(false)
	if _, tty := terminal.Size(s.out); tty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// printLines prints lines.
func (s *streams) printLines(lines []string) error {
	_, err := io.WriteString(s.out, strings.Join(lines, "\n")+"\n")
	return err
}

// printText prints lines, wrapped where a terminal shows them.
func (s *streams) printText(lines []string, hang int) error {
	width, _ := terminal.Size(s.out)
	return s.printLines(terminal.WrapAll(lines, hang, width))
}

// complain prints an error or a warning, wrapped where a terminal shows it.
func (s *streams) complain(message string) {
	width, _ := terminal.Size(s.err)
	io.WriteString(s.err, strings.Join(terminal.WrapAll(strings.Split("coppice: "+message, "\n"), 4, width), "\n")+"\n")
}

// readText reads the standard input, of at most so many bytes.
func (s *streams) readText(most int, what string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(s.in, int64(most)+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the %s from the standard input: %w", what, err)
	case len(text) > most:
		return "", usageError(fmt.Errorf("the standard input has more than %d bytes, which a %s may have", most, what))
	case !utf8.Valid(text):
		return "", usageError(fmt.Errorf("the %s on the standard input is not UTF-8", what))
	}
	return strings.TrimRight(string(text), "\n"), nil
}
