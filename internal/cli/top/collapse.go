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
func (m *topModel) isTree() bool { return m.order == byTree && m.filter == "" }

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
func (m *topModel) toggleAll(collapse bool) {
	clear(m.collapsed)
	for i, n := range m.nodes {
		if collapse && i > 0 && n.Kind != "agent" {
			m.collapsed[n.Path] = true
		}
	}
	m.updateRows()
}

// nearest returns the row of a node or, if that is hidden, of the collapsed supervisor; -1 if it is gone.
func (m *topModel) nearest(path string) int {
	i := m.row(path)
	if i >= 0 || !m.isTree() {
		return i
	}
	for above := parentOf(path); above != "" && i < 0; above = parentOf(above) {
		if m.collapsed[above] {
			i = m.row(above)
		}
	}
	return i
}

// parentOf returns the path of the supervisor of a node, empty for the root.
func parentOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// countHidden adds to the names of collapsed supervisors how many agents are below them.
func (m *topModel) countHidden(names []string) {
	for i, n := range m.rows {
		if m.collapsed[n.Path] {
			names[i] += fmt.Sprintf(" +%d", agentsBelow(m.nodes, n.Path))
		}
	}
}
