package top

import (
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/status"
)

func (m *topModel) keyInList(msg tea.KeyPressMsg) tea.Cmd {
	k := m.keys
	switch {
	case m.move(msg):
	case key.Matches(msg, k.quit):
		return tea.Quit
	case key.Matches(msg, k.help):
		m.help()
	case key.Matches(msg, k.filter):
		m.typing = true
	case key.Matches(msg, k.back):
		m.filter = ""
		m.updateRows()
	case key.Matches(msg, k.sort):
		m.order = (m.order + 1) % topOrders
		m.updateRows()
	case key.Matches(msg, k.collapse):
		return m.toggle()
	case key.Matches(msg, k.collapseAll, k.expandAll):
		m.toggleAll(key.Matches(msg, k.collapseAll))
	case key.Matches(msg, k.wrap):
		m.truncated = !m.truncated
	case key.Matches(msg, k.inbox):
		m.pane, m.screen = inboxPane, showPane
		m.inbox.open(m.selected)
	case m.switchPane(msg):
	case key.Matches(msg, k.open):
		return m.open()
	case m.selected == "":
	case key.Matches(msg, k.stop):
		m.pending = &topAction{control.Stop, m.selected}
	case key.Matches(msg, k.restart):
		m.pending = &topAction{control.Restart, m.selected}
	case key.Matches(msg, k.suspend):
		return m.suspend()
	case key.Matches(msg, k.start):
		return m.act(topAction{control.Start, m.selected})
	case key.Matches(msg, k.attach):
		return m.attach()
	}
	return nil
}

// move moves the selection if a key does that, and reports whether it does.
func (m *topModel) move(msg tea.KeyPressMsg) bool {
	k, page := m.keys, max(1, m.visible()-1)
	switch {
	case key.Matches(msg, k.up):
		m.selectRow(m.at - 1)
	case key.Matches(msg, k.down):
		m.selectRow(m.at + 1)
	case key.Matches(msg, k.pageUp):
		m.selectRow(m.at - page)
	case key.Matches(msg, k.pageDown):
		m.selectRow(m.at + page)
	case key.Matches(msg, k.first):
		m.selectRow(0)
	case key.Matches(msg, k.last):
		m.selectRow(len(m.rows) - 1)
	default:
		return false
	}
	return true
}

// keyInFilter edits the filter. Letters are text, never commands.
func (m *topModel) keyInFilter(msg tea.KeyPressMsg) {
	switch msg.String() {
	case "esc":
		m.typing, m.filter = false, ""
		m.updateRows()
	case "enter":
		m.typing = false
	case "up", "down", "pgup", "pgdown":
		m.move(msg)
	default:
		m.setFilter(edited(m.filter, msg))
	}
}

// setFilter filters the rows by a text. If the selected row is hidden, it
// selects the first matching agent, never the root by accident.
func (m *topModel) setFilter(text string) {
	was := m.selected
	m.filter = text
	if m.updateRows(); m.selected != was {
		m.selectRow(max(0, slices.IndexFunc(m.rows, func(n status.Node) bool { return n.Kind == "agent" })))
	}
}

// updateRows rebuilds the rows. The selected node stays selected. If it is hidden, the collapsed
// supervisor is; if it is gone, the node in its row is.
func (m *topModel) updateRows() {
	m.table = nil
	if m.isTree() {
		m.rows = shown(m.nodes, m.collapsed)
	} else {
		m.rows = arrange(m.nodes, m.used, m.order, m.filter)
	}
	if i := m.nearest(m.selected); i >= 0 {
		m.selectRow(i)
	} else {
		m.selectRow(m.at)
	}
}

// row returns the row of a node, or -1.
func (m *topModel) row(path string) int {
	return slices.IndexFunc(m.rows, func(n status.Node) bool { return n.Path == path })
}

// selectRow selects a row, or the nearest one, and follows its output.
func (m *topModel) selectRow(row int) {
	m.at = max(0, min(row, len(m.rows)-1))
	path, output := "", ""
	if len(m.rows) > 0 {
		n := m.rows[m.at]
		if path = n.Path; n.Kind == "agent" {
			output = path
		}
	}
	if path != m.selected {
		m.selected = path
		m.fleet.follow(output)
		m.log = newLogView()
	}
}

// node returns the selected node.
func (m *topModel) node() (n status.Node, ok bool) {
	if m.at < len(m.rows) && m.rows[m.at].Path == m.selected {
		return m.rows[m.at], true
	}
	return n, false
}
