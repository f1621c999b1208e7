package terminal

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// EscapeControls escapes control characters that JSON allows in strings but terminals interpret.
func EscapeControls(line []byte) []byte {
	if bytes.IndexFunc(line, isControl) < 0 {
		return line
	}
	escaped := make([]byte, 0, len(line)+len(line)/8)
	for _, r := range string(line) {
		if isControl(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

// InertWriter writes JSON through EscapeControls. Each Write must get complete values.
type InertWriter struct{ W io.Writer }

// Write implements io.Writer.
func (w InertWriter) Write(text []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(text) {
		end := bytes.TrimRight(line, "\n")
		out = append(append(out, EscapeControls(end)...), line[len(end):]...)
	}
	if _, err := w.W.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

// isControl reports whether a terminal interprets a character instead of showing it.
func isControl(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
