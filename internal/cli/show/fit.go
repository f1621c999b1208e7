package show

import (
	"slices"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/status"
)

// expendable are the columns to drop first when space is short. The reason and the next start stay.
var expendable = []string{"KIND", "PID", "INC", "STARTS", "NEXT"}

// maxTextColumn is the width that a text column keeps before other columns are dropped.
const maxTextColumn = 30

// Narrow drops columns until a table fits into width, if that is positive. Columns without
// information go first, then expendable ones; NEXT goes only if it is empty. Text before the last
// column is cut to its share.
func Narrow(nodes []status.Node, columns []Column, width int) []Column {
	if width <= 0 {
		return columns
	}
	text := func(c Column) bool { return c.Name == "REASON" || c.Name == "STATUS" }
	widths, empty, taken := map[string]int{}, map[string]bool{}, -2
	now := time.Now()
	for _, c := range columns {
		w, hasText := ansi.StringWidth(c.Name), false
		for i, n := range nodes {
			cell := c.Text(i, n, now)
			w, hasText = max(w, ansi.StringWidth(cell)), hasText || cell != "" && cell != "-"
		}
		if text(c) {
			w = min(w, maxTextColumn)
		}
		widths[c.Name], empty[c.Name] = w+2, !hasText
		taken += w + 2
	}
	dropped := map[string]bool{}
	for _, all := range []bool{false, true} {
		for _, name := range expendable {
			if taken > width && !dropped[name] && (empty[name] || all && name != "NEXT") {
				dropped[name], taken = true, taken-widths[name]
			}
		}
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c Column) bool { return dropped[c.Name] })
	for i, c := range columns[:max(0, len(columns)-1)] {
		if text(c) {
			room := widths[c.Name] - 2 + max(0, width-taken)
			columns[i].Text = func(i int, n status.Node, now time.Time) string {
				return ansi.Truncate(c.Text(i, n, now), room, "…")
			}
		}
	}
	return columns
}

const (
	minNameWidth       = 16 // the least width of a name
	preferredNameWidth = 24 // the width of a name before INC is shown
	minTextWidth       = 14 // the width that names leave for a text
)

// FitColumns fits a table into the width of a screen. It shortens names, in the first column, to
// leave space for texts; if that is not enough, it drops columns. The table cuts the texts.
func FitColumns(nodes []status.Node, columns []Column, width int) []Column {
	if width <= 0 || len(columns) == 0 {
		return columns
	}
	now := time.Now()
	widths := make(map[string]int, len(columns))
	for _, c := range columns {
		widths[c.Name] = ansi.StringWidth(c.Name)
		for i, n := range nodes {
			widths[c.Name] = max(widths[c.Name], ansi.StringWidth(c.Text(i, n, now)))
		}
	}
	names, fixed, texts := columns[0], 0, 0
	for _, c := range columns[1:] {
		switch c.Name {
		case "NEXT", "STATUS", "REASON":
			texts += 2 + min(widths[c.Name], minTextWidth)
		default:
			fixed += 2 + widths[c.Name]
		}
	}
	least := min(minNameWidth, widths[names.Name])
	for _, name := range []string{"INC", "STARTS", "CPU", "MEM", "UPTIME"} {
		needed := least
		if name == "INC" {
			needed = min(preferredNameWidth, widths[names.Name]) + texts
		}
		if w, ok := widths[name]; ok && fixed+needed > width {
			fixed -= 2 + w
			columns = slices.DeleteFunc(slices.Clone(columns), func(c Column) bool { return c.Name == name })
		}
	}
	room := max(least, width-fixed-texts)
	if widths[names.Name] <= room {
		return columns
	}
	columns = slices.Clone(columns)
	columns[0].Text = func(i int, n status.Node, now time.Time) string {
		return terminal.Shorten(names.Text(i, n, now), room)
	}
	return columns
}
