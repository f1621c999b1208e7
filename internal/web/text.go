package web

import (
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"

	ansihtml "github.com/buildkite/terminal-to-html/v3"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// maxLine is the maximum length of a line of output that is shown, in bytes. The whole line is in the raw log.
const maxLine = 4 << 10

// coloured returns a line of output as HTML, with the colours that it has and with nothing else that a terminal
// would do. Text of agents is always text.
func coloured(line string) template.HTML {
	cut := 0
	if len(line) > maxLine {
		cut = len(line) - maxLine
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	html := ""
	if line = onlyColours(line); line != "" {
		screen, err := ansihtml.NewScreen(ansihtml.WithSize(len(line), 1))
		if err == nil {
			screen.Write([]byte(line))
			html = screen.AsHTML()
		}
	}
	if cut > 0 {
		html += `<span class="cut"> … ` + plaintext.Plural(cut, "more byte") + `</span>`
	}
	return template.HTML(html) //nolint:gosec // the screen escapes text, and what is left of a line has only colours
}

// onlyColours removes from a line all escape sequences but those for colours, and what plaintext.Line removes. The
// text of a sequence that does not end stays, so that it hides nothing.
func onlyColours(line string) string {
	var b strings.Builder
	b.Grow(len(line))
	var state byte
	for rest := line; rest != ""; {
		sequence, width, n, next := ansi.DecodeSequence(rest, state, nil)
		if rest, state = rest[n:], next; rest == "" && state != ansi.NormalState {
			return plaintext.Line(line)
		}
		switch {
		case sequence == "\t":
			b.WriteByte('\t')
		case width == 0 && strings.HasPrefix(sequence, "\x1b["):
			parameters, ok := strings.CutSuffix(sequence[2:], "m")
			if ok && !strings.ContainsFunc(parameters, notColour) {
				b.WriteString(sequence)
			}
		case width == 0 && isControl(sequence):
		default:
			for _, r := range sequence {
				if !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != 0x2028 && r != 0x2029 {
					b.WriteRune(r)
				}
			}
		}
	}
	return b.String()
}

// isControl reports whether a sequence is for a terminal, and no text.
func isControl(sequence string) bool {
	return sequence[0] < 0x20 || sequence[0] == 0x7f || sequence[0] >= 0x80 && !utf8.ValidString(sequence)
}

// notColour reports whether a rune is none of the parameters of a sequence for colours.
func notColour(r rune) bool { return (r < '0' || r > '9') && r != ';' && r != ':' }
