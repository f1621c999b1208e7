package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

// Branches draws the names of nodes, which come parents first, as a tree
// below the first of them.
func Branches(nodes []status.Node) []string {
	names := make([]string, len(nodes))
	if len(nodes) == 0 {
		return names
	}
	base := strings.Count(nodes[0].Path, "/")
	// From the end: a node is the last of its siblings if none was seen since
	// the one above it.
	last := make([]bool, len(nodes))
	seen := map[int]bool{} // by depth
	for i := len(nodes) - 1; i >= 0; i-- {
		depth := strings.Count(nodes[i].Path, "/") - base
		last[i] = !seen[depth]
		seen[depth] = true
		delete(seen, depth+1)
	}
	var above []bool // by depth: whether that branch is the last of its siblings
	for i, n := range nodes {
		depth := max(0, strings.Count(n.Path, "/")-base)
		above = append(above[:min(max(0, depth-1), len(above))], last[i])
		var b strings.Builder
		if depth > 0 {
			for _, ended := range above[:len(above)-1] {
				b.WriteString(map[bool]string{false: "│  ", true: "   "}[ended])
			}
			b.WriteString(map[bool]string{false: "├─ ", true: "└─ "}[last[i]])
		} else {
			above = above[:0]
		}
		name := n.Path[strings.LastIndex(n.Path, "/")+1:]
		if i == 0 {
			name = n.Path
		}
		b.WriteString(proc.Plain(name))
		if n.Pool != nil {
			b.WriteString(" (pool)")
		} else if n.Strategy != "" {
			fmt.Fprintf(&b, " (%s)", proc.Plain(n.Strategy))
		}
		names[i] = b.String()
	}
	return names
}

// NodeTable returns a table of nodes, a line each after the header. At most so many
// nodes are shown if most is positive; a last line says how many are not.
func NodeTable(nodes []status.Node, columns []Column, most, width int, p terminal.Paint) []string {
	now := time.Now()
	rows, states := make([][]string, len(nodes)), make([]string, len(nodes))
	for i, n := range nodes {
		states[i] = State(n)
		for _, c := range columns {
			rows[i] = append(rows[i], strings.ReplaceAll(c.Text(i, n, now), "\t", " "))
		}
	}
	hidden := 0
	if most > 0 {
		rows, states, hidden = chooseRows(rows, states, most)
	}
	header := make([]string, len(columns))
	for i, c := range columns {
		header[i] = c.Name
	}
	lines := terminal.Table(header, rows, width, func(row, column int, text string) string {
		switch {
		case row == 0:
			return p.Bold(text)
		case strings.TrimSuffix(header[column], SortMark) == "STATE":
			return PaintState(p, states[row-1], text)
		case header[column] == "NEXT", header[column] == "REASON":
			return p.Dim(text)
		}
		return text
	})
	if hidden > 0 {
		lines = append(lines, p.Dim(fmt.Sprintf("… and %d more", hidden)))
	}
	return lines
}

// chooseRows chooses at most n rows and says how many it left out. Those that do not
// simply run come first: they are why somebody looks. The order stays.
func chooseRows(rows [][]string, states []string, n int) ([][]string, []string, int) {
	hidden := len(rows) - n
	if hidden <= 0 {
		return rows, states, 0
	}
	n-- // for the line that says so
	notRunning := 0
	for _, s := range states[1:] {
		if s != StateRunning {
			notRunning++
		}
	}
	running := max(0, n-1-notRunning) // how many that run there is room for
	chosenRows, chosenStates := rows[:1:1], states[:1:1]
	for i, s := range states[1:] {
		if len(chosenRows) == n {
			break
		}
		if s == StateRunning {
			if running == 0 {
				continue
			}
			running--
		}
		chosenRows, chosenStates = append(chosenRows, rows[i+1]), append(chosenStates, s)
	}
	return chosenRows, chosenStates, len(rows) - len(chosenRows)
}

// SortMark follows the name of the column that rows are sorted by.
const SortMark = "▼"
