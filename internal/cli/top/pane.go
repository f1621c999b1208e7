package top

import (
	"fmt"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// pane is the part of the screen below the tree. It can fill the screen.
type pane int

const (
	logPane     pane = iota // the output of the selected agent
	explainPane             // why the selected node is in its state
	inboxPane               // what waits for a person
	panes                   // the number of panes
)

// switchPane shows another pane if a key does that, and reports whether it does.
func (m *topModel) switchPane(msg tea.KeyPressMsg) bool {
	to := m.pane
	switch k := m.keys; {
	case key.Matches(msg, k.nextPane):
		to = (m.pane + 1) % panes
	case key.Matches(msg, k.log):
		to = logPane
	case key.Matches(msg, k.explain):
		to = explainPane
	case key.Matches(msg, k.inbox):
		to = inboxPane
	}
	if to == m.pane {
		return false
	}
	m.pane = to
	m.log.follow()
	if to == inboxPane {
		m.inbox.open(m.selected)
	}
	return true
}

// open shows the pane on the whole screen.
func (m *topModel) open() tea.Cmd {
	n, ok := m.node()
	if m.pane == logPane && (!ok || n.Kind != "agent") {
		return m.showNote(m.selected + " is a supervisor, which has no output of its own; select an agent")
	}
	m.screen = showPane
	m.explain.view.GotoTop()
	return nil
}

// keyInPane handles the keys of a pane that fills the screen.
func (m *topModel) keyInPane(msg tea.KeyPressMsg) tea.Cmd {
	k := m.keys
	switch {
	case key.Matches(msg, k.back, k.quit), key.Matches(msg, k.open) && m.pane != inboxPane:
		m.screen = showList
		m.log.follow()
	case key.Matches(msg, k.help):
		m.help()
	case m.switchPane(msg):
	case m.pane == inboxPane:
		return m.keyInInbox(msg)
	case key.Matches(msg, k.wrap):
		m.truncated = !m.truncated
	case m.pane == explainPane:
		scroll(&m.explain.view, msg, k)
	default:
		m.log.key(msg, k)
	}
	return nil
}

// ask returns a command that gets what the visible pane needs, or nil. It asks for nothing else.
func (m *topModel) ask(now time.Time) tea.Cmd {
	if m.screen == showHelp || m.tooSmall() {
		return nil
	}
	if m.pane == inboxPane {
		return m.inbox.ask(m.fleet, now)
	}
	if n, ok := m.node(); ok && m.pane == explainPane {
		return m.explain.ask(m.fleet, n, now)
	}
	return nil
}

// fitPane lays out the pane that fills the screen.
func (m *topModel) fitPane() {
	switch m.pane {
	case logPane:
		m.log.fit(m.width, m.height-2, !m.truncated)
	case explainPane:
		fitView(&m.explain.view, m.explain.lines(m.selected, m.canvas), m.width, m.height-2)
	case inboxPane:
		m.inbox.fit(m.canvas)
	}
}

// belowTree returns at most room lines of the pane below the tree.
func (m *topModel) belowTree(room int) []string {
	switch m.pane {
	case explainPane:
		return beginning(m.explain.lines(m.selected, m.canvas), room)
	case inboxPane:
		return beginning(m.inbox.lines(m.paint, m.width), room)
	default:
		if text := m.placeholder(); len(m.log.newest.lines) == 0 && text != "" {
			return []string{m.paint.Dim(text)}
		}
		return lastRows(m.log.newest.lines, m.width, room, !m.truncated)
	}
}

// beginning returns the first lines that are not empty.
func beginning(lines []string, n int) (first []string) {
	for _, line := range lines {
		if len(first) < n && line != "" {
			first = append(first, line)
		}
	}
	return first
}

// paneTitle returns the line above a pane.
func (m *topModel) paneTitle() string {
	text := plaintext.Line(m.selected)
	switch {
	case m.pane == explainPane:
		text += ": explain"
	case m.pane == inboxPane:
		text = m.inbox.title()
	case m.log.scrolledUp:
		text += fmt.Sprintf(" (%d%%, %d new below)", int(100*m.log.view.ScrollPercent()), m.log.waiting())
	}
	return m.title(text)
}

// paneLines returns the pane as the whole screen.
func (m *topModel) paneLines() []string {
	keys, lines := m.keys.inPane(), []string{m.paneTitle()}
	switch text := m.placeholder(); {
	case m.pane == explainPane:
		lines = append(lines, scrolled(m.explain.view)...)
	case m.pane == inboxPane:
		keys, lines = m.keys.inInbox(), m.inbox.screen(m.canvas)
	case len(m.log.lines) == 0 && text != "":
		lines = append(lines, m.paint.Dim(text))
	default:
		lines = append(lines, scrolled(m.log.view)...)
	}
	last := m.paint.Dim(shortHelp(keys, m.width))
	switch {
	case m.note != "":
		last = plaintext.Line(m.note)
	case m.inbox.answering != nil:
		last = m.inbox.answerLine(m.canvas)
	case m.err != nil:
		last = m.paint.Red(plaintext.Line(oneLine(m.err)))
	}
	return append(lines[:min(len(lines), max(1, m.height-1))], last)
}
