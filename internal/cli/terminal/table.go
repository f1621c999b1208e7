package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// Table aligns rows under a header. cell paints a cell; row 0 is the header. Lines are cut at
// width, if that is positive.
func Table(header []string, rows [][]string, width int, cell func(row, column int, text string) string) []string {
	widths := make([]int, len(header))
	all := append([][]string{header}, rows...)
	for _, row := range all {
		for i, text := range row {
			widths[i] = max(widths[i], ansi.StringWidth(text))
		}
	}
	lines := make([]string, len(all))
	for r, row := range all {
		var b strings.Builder
		for i, text := range row {
			pad := 2 + widths[i] - ansi.StringWidth(text)
			b.WriteString(cell(r, i, text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", pad))
			}
		}
		lines[r] = strings.TrimRight(b.String(), " ")
		if width > 0 {
			lines[r] = ansi.Truncate(lines[r], width, "…")
		}
	}
	return lines
}

// Cell makes text safe and short enough for a cell of a table.
func Cell(text string) string {
	text = strings.NewReplacer("\n", " ", "\t", " ").Replace(text)
	return ansi.Truncate(plaintext.Line(text), 100, "…")
}

// Age returns the time since at.
func Age(at, now time.Time) string { return timespan.Short(max(0, now.Sub(at)).Truncate(time.Second)) }

// BoldHeader returns a cell function for Table that paints only the header.
func BoldHeader(p Paint) func(row, column int, text string) string {
	return func(row, _ int, text string) string {
		if row == 0 {
			return p.Bold(text)
		}
		return text
	}
}

// PlainLines returns the lines of a text without control sequences.
func PlainLines(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = plaintext.Line(strings.TrimSuffix(line, "\r"))
	}
	return lines
}

// PlainText returns a text of several lines without control sequences.
func PlainText(text string) string { return strings.Join(PlainLines(text), "\n") }

// Shorten cuts text in its middle. Both ends stay readable, because names differ there.
func Shorten(text string, width int) string {
	all := ansi.StringWidth(text)
	if width <= 0 || all <= width {
		return text
	}
	front := (width - 1) * 2 / 3
	back := max(0, width-1-front)
	return ansi.Truncate(text, front, "") + "…" + ansi.TruncateLeft(text, all-back, "")
}

// UntilText returns the time until at, such as "in 5m"; "-" for nil.
func UntilText(at *time.Time, now time.Time) string {
	switch {
	case at == nil:
		return "-"
	case !at.After(now):
		return "now"
	case at.Year()-now.Year() > 100: // close to the limit of time.Duration
		return fmt.Sprintf("in %d years", at.Year()-now.Year())
	}
	return "in " + timespan.Short(at.Sub(now))
}

// WrapLines breaks lines that are wider than the screen.
func WrapLines(lines []string, width int) []string {
	if width <= 0 {
		return lines
	}
	rows := make([]string, 0, len(lines))
	for _, line := range lines {
		if len(line) <= width || ansi.StringWidth(line) <= width {
			rows = append(rows, line)
			continue
		}
		rows = append(rows, strings.Split(ansi.Hardwrap(line, width, true), "\n")...)
	}
	return rows
}

// Clock returns the time of day, with the date unless it is today.
func Clock(at, now time.Time) string {
	at = at.Local()
	if at.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
