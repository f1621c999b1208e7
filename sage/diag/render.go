package diag

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/sage/source"
)

// Write shows diagnostics to a person, separated by empty lines. Each consists of the message, the
// position, the source line with carets below the span, and the help. A text can affect the
// terminal only where its own characters are. Colour selects escape sequences for colours.
func Write(w io.Writer, diagnostics []Diagnostic, colour bool) error {
	var b strings.Builder
	for i, d := range diagnostics {
		if i > 0 {
			b.WriteByte('\n')
		}
		r := renderer{b: &b, colour: colour}
		r.diagnostic(d)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	tabStop = 4
	// window is the number of columns that are shown around a span.
	window = 120
)

type style string

const (
	red    style = "\x1b[1;31m"
	yellow style = "\x1b[1;33m"
	blue   style = "\x1b[34m"
	bold   style = "\x1b[1m"
	reset  style = "\x1b[0m"
)

type renderer struct {
	b      *strings.Builder
	colour bool
	gutter int // width of the line numbers
}

func (r *renderer) write(s style, format string, args ...any) {
	if r.colour && s != "" {
		r.b.WriteString(string(s))
		defer r.b.WriteString(string(reset))
	}
	fmt.Fprintf(r.b, format, args...)
}

func (r *renderer) diagnostic(d Diagnostic) {
	color := red
	if d.Severity == Warning {
		color = yellow
	}
	head := d.Severity.String()
	if d.Code != "" {
		head += "[" + d.Code + "]"
	}
	r.write(color, "%s", head)
	r.write(bold, ": %s\n", Visible(d.Message))
	last := d.Span.Position().Line
	for _, rel := range d.Related {
		last = max(last, rel.Span.Position().Line)
	}
	r.gutter = len(strconv.Itoa(last))
	r.place(d.Span, '^', color)
	for _, rel := range d.Related {
		r.write(blue, "%*s = ", r.gutter, "")
		fmt.Fprintf(r.b, "%s:\n", Visible(rel.Message))
		r.place(rel.Span, '-', blue)
	}
	if d.Help != "" {
		for i, l := range strings.Split(d.Help, "\n") {
			label := "help: "
			if i > 0 {
				label = "      "
			}
			r.write(blue, "%*s = ", r.gutter, "")
			r.write(bold, "%s", label)
			fmt.Fprintf(r.b, "%s\n", Visible(l))
		}
	}
}

// place shows the position of a span and the first of its lines.
func (r *renderer) place(s source.Span, mark rune, color style) {
	if !s.Valid() {
		return
	}
	at := s.Position()
	r.write(blue, "%*s--> ", r.gutter, "")
	fmt.Fprintf(r.b, "%s\n", Visible(at.String()))
	before, about, after := excerpt(s, at)
	r.write(blue, "%*s |\n", r.gutter, "")
	r.write(blue, "%*d | ", r.gutter, at.Line)
	fmt.Fprintf(r.b, "%s\n", strings.TrimRight(before+about+after, " "))
	r.write(blue, "%*s | ", r.gutter, "")
	r.b.WriteString(strings.Repeat(" ", ansi.StringWidth(before)))
	r.write(color, "%s\n", strings.Repeat(string(mark), max(1, ansi.StringWidth(about))))
}

// excerpt returns the parts of the line of a span that are shown: before, inside and after the
// span.
func excerpt(s source.Span, at source.Position) (before, about, after string) {
	line := s.File.Line(at.Line)
	start := min(at.Offset-s.File.LineStart(at.Line), len(line))
	end := min(max(start, int(s.End)-s.File.LineStart(at.Line)), len(line))
	// Text far from the span is cut off first, since a line can be as long as
	// the whole file.
	from := runeBoundary(line, start-4*window)
	to := runeBoundary(line, end+4*window)
	end = max(start, runeBoundary(line, min(end, start+4*window)))
	before = expand(line[from:start], 0)
	about = expand(line[start:end], ansi.StringWidth(before))
	after = expand(line[end:max(end, to)], ansi.StringWidth(before)+ansi.StringWidth(about))
	if w := ansi.StringWidth(before); w > window/2 {
		before = "…" + ansi.TruncateLeft(before, w-window/2, "")
	}
	if ansi.StringWidth(about) > window {
		return before, ansi.Truncate(about, window, "…"), ""
	}
	return before, about, ansi.Truncate(after, max(1, window-ansi.StringWidth(before)-ansi.StringWidth(about)), "…")
}

// runeBoundary returns the nearest offset in s at which a character starts.
func runeBoundary(s string, at int) int {
	at = min(max(at, 0), len(s))
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// expand returns a part of a line as it is shown from a column on.
func expand(s string, column int) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "\t") {
		if i > 0 {
			n := tabStop - column%tabStop
			b.WriteString(strings.Repeat(" ", n))
			column += n
		}
		part = Visible(part)
		b.WriteString(part)
		column += ansi.StringWidth(part)
	}
	return b.String()
}

// Visible returns a text that is safe for a terminal. Control characters, characters without width
// and those that change the direction of text are replaced by their code, such as <U+001B>. Tabs
// and line ends are replaced by spaces.
func Visible(s string) string {
	plain := true
	for i := range len(s) {
		plain = plain && s[i] >= 0x20 && s[i] < 0x7f
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
		case r == '\t' || r == '\n':
			b.WriteByte(' ')
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != 0x200d, r == 0x2028, r == 0x2029:
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}
