package show

import (
	"slices"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/status"
)

// expendable are the columns that a list of nodes gives up first where there is
// no room for all. Why nodes do not run, and what comes next, stays.
var expendable = []string{"KIND", "PID", "INC", "STARTS", "NEXT"}

// sentence is how much room a column of text is given before others have to go.
const sentence = 30

// Narrow chooses the columns of a list that is shown once on a terminal of a
// width, 0 if there is no bound: where it is too wide, those go first that say
// nothing, then those that are expendable. NEXT goes only if it says nothing.
// Text in front of other columns gets no more than its share.
func Narrow(nodes []status.Node, columns []Column, width int) []Column {
	if width <= 0 {
		return columns
	}
	text := func(c Column) bool { return c.Name == "REASON" || c.Name == "STATUS" }
	widths, blank, taken := map[string]int{}, map[string]bool{}, -2
	now := time.Now()
	for _, c := range columns {
		w, says := ansi.StringWidth(c.Name), false
		for i, n := range nodes {
			cell := c.Text(i, n, now)
			w, says = max(w, ansi.StringWidth(cell)), says || cell != "" && cell != "-"
		}
		if text(c) {
			w = min(w, sentence)
		}
		widths[c.Name], blank[c.Name] = w+2, !says
		taken += w + 2
	}
	gone := map[string]bool{}
	for _, all := range []bool{false, true} {
		for _, name := range expendable {
			if taken > width && !gone[name] && (blank[name] || all && name != "NEXT") {
				gone[name], taken = true, taken-widths[name]
			}
		}
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c Column) bool { return gone[c.Name] })
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
