package top

import (
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/status"
)

// list is the tree of the fleet, or a part of it in another order.
type list struct {
	snapshot
	rows      []status.Node // the nodes that match the filter, in order
	table     []string      // header and rows as text; nil if they have changed since
	counts    string        // the first line, as old as the table
	order     topOrder
	filter    string
	selected  string          // path of the selected node
	at        int             // row of the selected node
	collapsed map[string]bool // supervisors, by path
	above     int             // rows scrolled out above
	// chosen is called when another node is selected, with its path if it has output.
	chosen func(output string)
}

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
func (l *list) setFilter(text string) {
	was := l.selected
	l.filter = text
	if l.updateRows(); l.selected != was {
		l.selectRow(max(0, slices.IndexFunc(l.rows, func(n status.Node) bool { return n.Kind == "agent" })))
	}
}

// updateRows rebuilds the rows. The selected node stays selected. If it is hidden, the collapsed
// supervisor is; if it is gone, the node in its row is.
func (l *list) updateRows() {
	l.table = nil
	if l.isTree() {
		l.rows = shown(l.nodes, l.collapsed)
	} else {
		l.rows = arrange(l.nodes, l.used, l.order, l.filter)
	}
	if i := l.nearest(l.selected); i >= 0 {
		l.selectRow(i)
	} else {
		l.selectRow(l.at)
	}
}

// row returns the row of a node, or -1.
func (l *list) row(path string) int {
	return slices.IndexFunc(l.rows, func(n status.Node) bool { return n.Path == path })
}

// selectRow selects a row, or the nearest one.
func (l *list) selectRow(row int) {
	l.at = max(0, min(row, len(l.rows)-1))
	path, output := "", ""
	if len(l.rows) > 0 {
		n := l.rows[l.at]
		if path = n.Path; n.Kind == "agent" {
			output = path
		}
	}
	if path != l.selected {
		l.selected = path
		l.chosen(output)
	}
}

// node returns the selected node.
func (l *list) node() (n status.Node, ok bool) {
	if l.at < len(l.rows) && l.rows[l.at].Path == l.selected {
		return l.rows[l.at], true
	}
	return n, false
}
