package top

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"github.com/charmbracelet/x/ansi"
)

// topKeys are the keys of top. The help on the screen and of the command are generated from them,
// and tests compare docs/top.md with them.
type topKeys struct {
	up, down, pageUp, pageDown, first, last, left, right key.Binding
	open, nextPane, log, explain, inbox                  key.Binding
	filter, sort, wrap, help, back, quit                 key.Binding
	collapse, collapseAll, expandAll                     key.Binding
	stop, start, restart, suspend, attach                key.Binding
}

func newBinding(help, does string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(help, does))
}

func newTopKeys() topKeys {
	return topKeys{
		up:          newBinding("↑ k", "up", "up", "k"),
		down:        newBinding("↓ j", "down", "down", "j"),
		pageUp:      newBinding("PgUp", "up: by a screen", "pgup", "ctrl+b"),
		pageDown:    newBinding("PgDn", "down: by a screen", "pgdown", "ctrl+f"),
		first:       newBinding("Home g", "first: to the first row", "home", "g"),
		last:        newBinding("End G", "last: to the last row; in a log, follow it", "end", "G"),
		left:        newBinding("← h", "left: in a log that is not wrapped", "left", "h"),
		right:       newBinding("→ l", "right: in a log that is not wrapped", "right", "l"),
		open:        newBinding("Enter F4", "open: what is below the tree, on the whole screen", "enter", "f4"),
		nextPane:    newBinding("Tab", "pane: the next one below the tree", "tab"),
		log:         newBinding("l", "log: the output of the agent", "l"),
		explain:     newBinding("d", "explain: why the node is in its state, and what is next", "d"),
		inbox:       newBinding("i", "inbox: questions and unread mail; there, Enter answers or reads", "i"),
		filter:      newBinding("/", "filter: rows whose path or state has the text", "/"),
		sort:        newBinding("o", "sort: by the next column", "o"),
		collapse:    newBinding("Space", "collapse: the supervisor, or expand it", "space"),
		collapseAll: newBinding("-", "collapse: all supervisors", "-"),
		expandAll:   newBinding("+", "expand: all supervisors", "+", "="),
		wrap:        newBinding("w F6", "wrap: long lines of output, or cut them", "w", "f6"),
		stop:        newBinding("s F9", "stop: asks first", "s", "f9"),
		start:       newBinding("S F7", "start", "S", "f7"),
		restart:     newBinding("r Ctrl-R", "restart: asks first", "r", "ctrl+r"),
		suspend:     newBinding("p", "suspend: asks first; or resume what is suspended", "p"),
		attach:      newBinding("a", "attach: to the terminal of the agent", "a"),
		help:        newBinding("?", "help: all keys", "?"),
		back:        newBinding("Esc", "back: to the tree; there, no filter", "esc"),
		quit:        newBinding("q F10", "quit: or back to the tree", "q", "f10"),
	}
}

// all returns all keys in the order of the help.
func (k topKeys) all() []key.Binding {
	return []key.Binding{
		k.up, k.down, k.pageUp, k.pageDown, k.first, k.last, k.left, k.right,
		k.open, k.nextPane, k.log, k.explain, k.inbox, k.filter, k.sort, k.collapse, k.collapseAll, k.expandAll,
		k.wrap, k.stop, k.start, k.restart, k.suspend, k.attach, k.help, k.back, k.quit,
	}
}

// inList and inPane return the keys to name below the list and a pane. The most important come first,
// since the line may be cut.
func (k topKeys) inList() []key.Binding {
	return []key.Binding{
		k.help, k.quit, k.open, k.nextPane, k.inbox, k.filter, k.sort, k.stop, k.restart, k.attach, k.start, k.suspend,
	}
}

func (k topKeys) inPane() []key.Binding {
	return []key.Binding{k.back, k.nextPane, k.pageUp, k.pageDown, k.last, k.wrap, k.help}
}

// runKeys are the keys of the live view of run.
type runKeys struct{ quit, interrupt key.Binding }

func newRunKeys() runKeys {
	return runKeys{
		quit:      newBinding("q", "stop: all agents in order, after a question", "q"),
		interrupt: newBinding("Ctrl-C", "stop without asking: once more kills", "ctrl+c"),
	}
}

func (k runKeys) all() []key.Binding { return []key.Binding{k.quit, k.interrupt} }

// shortHelp names keys in one line of at most width columns, each with its first name and the first word of its help.
func shortHelp(keys []key.Binding, width int) string {
	keys = slices.Clone(keys)
	for i, k := range keys {
		word, _, _ := strings.Cut(k.Help().Desc, ":")
		name, _, _ := strings.Cut(k.Help().Key, " ")
		keys[i].SetHelp(name, word)
	}
	m := help.New()
	m.ShortSeparator, m.Styles = "  ", help.Styles{}
	m.SetWidth(width)
	return ansi.Truncate(m.ShortHelpView(keys), max(width, 0), "…")
}

// helpLines explains keys, one line each.
func helpLines(keys []key.Binding) []string {
	widest := 0
	for _, k := range keys {
		widest = max(widest, ansi.StringWidth(k.Help().Key))
	}
	var lines []string
	for _, k := range keys {
		h := k.Help()
		lines = append(lines, h.Key+strings.Repeat(" ", widest-ansi.StringWidth(h.Key)+2)+h.Desc)
	}
	return lines
}
