package show

import (
	"slices"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/status"
)

const (
	minName = 16 // columns that a name has at least
	midName = 24 // columns that are worth more to a name than INC
	minText = 14 // columns that names leave to a text, if it is that long
)

// FitColumns makes room in a table that is always as wide as the screen: names,
// in the first column, are shortened so that what follows can be seen, and where
// that is not enough some of the columns after them go. Texts are cut by the table.
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
			texts += 2 + min(widths[c.Name], minText)
		default:
			fixed += 2 + widths[c.Name]
		}
	}
	least := min(minName, widths[names.Name])
	for _, name := range []string{"INC", "STARTS", "CPU", "MEM", "UPTIME"} {
		wish := least
		if name == "INC" {
			wish = min(midName, widths[names.Name]) + texts
		}
		if w, ok := widths[name]; ok && fixed+wish > width {
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
		return terminal.Shorten(names.Text(i, n,
			now), room)
	}
	return columns
}
