package cli

import (
	"slices"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/status"
)

const (
	minName = 16 // columns that a name has at least
	midName = 24 // columns that are worth more to a name than INC
	minText = 14 // columns that names leave to a text, if it is that long
)

// fitColumns makes room in a table that is always as wide as the screen: names,
// in the first column, are shortened so that what follows can be seen, and where
// that is not enough some of the columns after them go. Texts are cut by the table.
func fitColumns(nodes []status.Node, columns []column, width int) []column {
	if width <= 0 || len(columns) == 0 {
		return columns
	}
	now := time.Now()
	widths := make(map[string]int, len(columns))
	for _, c := range columns {
		widths[c.name] = ansi.StringWidth(c.name)
		for i, n := range nodes {
			widths[c.name] = max(widths[c.name], ansi.StringWidth(c.text(i, n, now)))
		}
	}
	names, fixed, texts := columns[0], 0, 0
	for _, c := range columns[1:] {
		switch c.name {
		case "NEXT", "STATUS", "REASON":
			texts += 2 + min(widths[c.name], minText)
		default:
			fixed += 2 + widths[c.name]
		}
	}
	least := min(minName, widths[names.name])
	for _, name := range []string{"INC", "STARTS", "CPU", "MEM", "UPTIME"} {
		wish := least
		if name == "INC" {
			wish = min(midName, widths[names.name]) + texts
		}
		if w, ok := widths[name]; ok && fixed+wish > width {
			fixed -= 2 + w
			columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.name == name })
		}
	}
	room := max(least, width-fixed-texts)
	if widths[names.name] <= room {
		return columns
	}
	columns = slices.Clone(columns)
	columns[0].text = func(i int, n status.Node, now time.Time) string { return shorten(names.text(i, n, now), room) }
	return columns
}
