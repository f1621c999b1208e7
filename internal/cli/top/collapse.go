package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/status"
)

// shown returns the nodes that are not below a collapsed supervisor. Parents come before their children.
func shown(nodes []status.Node, collapsed map[string]bool) []status.Node {
	if len(collapsed) == 0 {
		return nodes
	}
	rows := make([]status.Node, 0, len(nodes))
	below := "" // the prefix of the paths that are hidden
	for _, n := range nodes {
		if below != "" && strings.HasPrefix(n.Path, below) {
			continue
		}
		rows, below = append(rows, n), ""
		if collapsed[n.Path] {
			below = n.Path + "/"
		}
	}
	return rows
}

// isTree reports whether the rows are the tree, rather than a sorted or filtered list.
func (l *list) isTree() bool { return l.order == byTree && l.filter == "" }

// toggle collapses or expands the selected supervisor, or that of the selected agent.
func (m *topModel) toggle() tea.Cmd {
	n, ok := m.node()
	if !ok || !m.isTree() {
		return m.showNote("only a tree can be collapsed, not a list")
	}
	path := n.Path
	if n.Kind == "agent" {
		path = parentOf(path)
	}
	if m.collapsed[path] {
		delete(m.collapsed, path)
	} else {
		m.collapsed[path] = true
	}
	m.updateRows()
	return nil
}

// toggleAll collapses all supervisors except the root, or expands all.
func (l *list) toggleAll(collapse bool) {
	clear(l.collapsed)
	for i, n := range l.nodes {
		if collapse && i > 0 && n.Kind != "agent" {
			l.collapsed[n.Path] = true
		}
	}
	l.updateRows()
}

// nearest returns the row of a node or, if that is hidden, of the collapsed supervisor; -1 if it is gone.
func (l *list) nearest(path string) int {
	i := l.row(path)
	if i >= 0 || !l.isTree() {
		return i
	}
	for above := parentOf(path); above != "" && i < 0; above = parentOf(above) {
		if l.collapsed[above] {
			i = l.row(above)
		}
	}
	return i
}

// parentOf returns the path of the supervisor of a node, empty for the root.
func parentOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// countHidden adds to the names of collapsed supervisors how many agents are below them.
func (l *list) countHidden(names []string) {
	for i, n := range l.rows {
		if l.collapsed[n.Path] {
			names[i] += fmt.Sprintf(" +%d", agentsBelow(l.nodes, n.Path))
		}
	}
}
