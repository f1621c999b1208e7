package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
)

// Branches draws the names of nodes as a tree below the first node. Parents come before their
// children.
func Branches(nodes []status.Node) []string {
	names := make([]string, len(nodes))
	if len(nodes) == 0 {
		return names
	}
	base := strings.Count(nodes[0].Path, "/")
	// Going backwards, a node is the last sibling if no sibling was seen since its parent.
	last := make([]bool, len(nodes))
	seen := map[int]bool{} // by depth
	for i := len(nodes) - 1; i >= 0; i-- {
		depth := strings.Count(nodes[i].Path, "/") - base
		last[i] = !seen[depth]
		seen[depth] = true
		delete(seen, depth+1)
	}
	var above []bool // by depth: the branch is the last sibling
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
		b.WriteString(plaintext.Line(name))
		if n.Pool != nil {
			b.WriteString(" (pool)")
		} else if n.Strategy != "" {
			fmt.Fprintf(&b, " (%s)", plaintext.Line(n.Strategy))
		}
		names[i] = b.String()
	}
	return names
}

// NodeTable returns a header and a line per node. If most is positive, at most that many rows are
// shown, and a last line counts the rest.
func NodeTable(nodes []status.Node, columns []Column, most, width int, p terminal.Paint) []string {
	now := time.Now()
	rows, states := make([][]string, len(nodes)), make([]string, len(nodes))
	for i, n := range nodes {
		states[i] = n.Shown()
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

// chooseRows selects at most n rows, in their order, and returns how many it hides. Nodes that are
// not running come first: they are what users look for.
func chooseRows(rows [][]string, states []string, n int) ([][]string, []string, int) {
	hidden := len(rows) - n
	if hidden <= 0 {
		return rows, states, 0
	}
	n-- // for the line that counts the hidden rows
	notRunning := 0
	for _, s := range states[1:] {
		if s != status.StateRunning {
			notRunning++
		}
	}
	running := max(0, n-1-notRunning) // how many running nodes still fit
	chosenRows, chosenStates := rows[:1:1], states[:1:1]
	for i, s := range states[1:] {
		if len(chosenRows) == n {
			break
		}
		if s == status.StateRunning {
			if running == 0 {
				continue
			}
			running--
		}
		chosenRows, chosenStates = append(chosenRows, rows[i+1]), append(chosenStates, s)
	}
	return chosenRows, chosenStates, len(rows) - len(chosenRows)
}

// SortMark marks the header of the sort column.
const SortMark = "▼"
