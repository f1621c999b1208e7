package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/cli/look"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/status"
)

// topFleet is the fleet that top shows and acts on.
type topFleet interface {
	// fetch returns the current state of the fleet.
	fetch() (snapshot, error)
	// act performs an action on a node and returns when it is done.
	act(path string, action control.Action) error
	// follow switches output to an agent; an empty path stops it.
	follow(path string)
	// output returns the end of the output of the followed agent.
	output() logTail
	// attach attaches the terminal to an agent.
	attach(path string, done func(error) tea.Msg) tea.Cmd
}

// topModel is the Bubble Tea model of top. Its methods change only the model; commands call the
// fleet.
type topModel struct {
	fleet topFleet
	keys  topKeys
	paint terminal.Paint
	snapshot
	err error // of the last fetch, which left the snapshot as it was

	rows     []status.Node // the nodes that match the filter, in order
	order    topOrder
	filter   string // not a textinput of bubbles, whose clipboard searches PATH whenever coppice starts
	typing   bool   // the filter is being edited
	selected string // path of the selected node
	at       int    // row of the selected node
	above    int    // rows scrolled out above

	pending   *topAction // waits for confirmation
	note      string     // the result of the last key
	noteID    int        // number of the current note
	truncated bool       // cut long lines of output instead of wrapping them
	screen    topScreen
	log       logView
	helpView  viewport.Model

	width, height int
}

// topScreen is a view that fills the screen.
type topScreen int

const (
	showList topScreen = iota
	showLog
	showHelp
)

// topAction is an action on a node.
type topAction struct {
	action control.Action
	path   string
}

const (
	// refreshInterval is the time between two snapshots, over which the use of resources is
	// measured.
	refreshInterval = time.Second
	// noteDuration is how long a note replaces the keys.
	noteDuration = 5 * time.Second
)

type (
	snapshotMsg struct {
		snapshot
		err error
	}
	noteMsg        string
	noteExpiredMsg int // the number of the expired note
	drawMsg        struct{}
	refreshMsg     struct{}
)

func newTopModel(fleet topFleet, p terminal.Paint, first snapshot) *topModel {
	m := &topModel{
		fleet: fleet, keys: newTopKeys(), paint: p, snapshot: first,
		log: newLogView(), helpView: viewport.New(),
	}
	m.updateRows()
	m.selectRow(m.row(initialSelection(m.nodes, m.status.Attention)))
	return m
}

// fetch gets a snapshot.
func (m *topModel) fetch() tea.Msg {
	d, err := m.fleet.fetch()
	return snapshotMsg{d, err}
}

// draw schedules the next frame.
func draw() tea.Cmd { return tea.Tick(frameInterval, func(time.Time) tea.Msg { return drawMsg{} }) }

func (m *topModel) Init() tea.Cmd { return tea.Batch(m.fetch, draw()) }

func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	m.fit()
	return m, cmd
}

func (m *topModel) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		m.note = ""
		return m.key(msg)
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + msg.Content)
		}
	case drawMsg:
		m.log.take(m.fleet.output())
		return draw()
	case noteMsg:
		return m.showNote(string(msg)) // the next snapshot shows the effect
	case noteExpiredMsg:
		if int(msg) == m.noteID {
			m.note = ""
		}
	case snapshotMsg:
		if m.err = msg.err; msg.err == nil {
			m.snapshot = msg.snapshot
			m.updateRows()
		}
		return tea.Tick(refreshInterval, func(time.Time) tea.Msg { return refreshMsg{} })
	case refreshMsg:
		return m.fetch
	}
	return nil
}

// showNote shows a note for noteDuration.
func (m *topModel) showNote(note string) tea.Cmd {
	m.noteID++
	m.note = note
	number := m.noteID
	return tea.Tick(noteDuration, func(time.Time) tea.Msg { return noteExpiredMsg(number) })
}

func (m *topModel) key(msg tea.KeyPressMsg) tea.Cmd {
	if msg.String() == "ctrl+c" {
		return tea.Quit
	}
	switch {
	case m.pending != nil:
		pending := *m.pending
		m.pending = nil
		if s := msg.String(); s == "y" || s == "Y" {
			return m.act(pending)
		}
		return m.showNote(fmt.Sprintf("%s: not done", pending.action))
	case m.screen == showHelp:
		m.keyInHelp(msg)
	case m.screen == showLog:
		m.keyInLog(msg)
	case m.typing:
		m.keyInFilter(msg)
	default:
		return m.keyInList(msg)
	}
	return nil
}

func (m *topModel) keyInList(msg tea.KeyPressMsg) tea.Cmd {
	k := m.keys
	switch {
	case m.move(msg):
	case key.Matches(msg, k.quit):
		return tea.Quit
	case key.Matches(msg, k.help):
		m.screen = showHelp
		m.helpView.GotoTop()
	case key.Matches(msg, k.filter):
		m.typing = true
	case key.Matches(msg, k.back):
		m.filter = ""
		m.updateRows()
	case key.Matches(msg, k.sort):
		m.order = (m.order + 1) % topOrders
		m.updateRows()
	case key.Matches(msg, k.wrap):
		m.truncated = !m.truncated
	case m.selected == "":
	case key.Matches(msg, k.log):
		return m.open()
	case key.Matches(msg, k.stop):
		m.pending = &topAction{control.Stop, m.selected}
	case key.Matches(msg, k.restart):
		m.pending = &topAction{control.Restart, m.selected}
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
	case "backspace", "ctrl+h":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.setFilter(m.filter[:len(m.filter)-n])
	case "ctrl+w", "alt+backspace":
		rest := strings.TrimRight(m.filter, " ")
		m.setFilter(rest[:strings.LastIndex(rest, " ")+1])
	case "ctrl+u":
		m.setFilter("")
	default:
		m.setFilter(m.filter + msg.Text)
	}
}

// setFilter filters the rows by the printable part of a text. If the selected row is hidden, it
// selects the first matching agent, never the root by accident.
func (m *topModel) setFilter(text string) {
	was := m.selected
	m.filter = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
	if m.updateRows(); m.selected != was {
		m.selectRow(max(0, slices.IndexFunc(m.rows, func(n status.Node) bool { return n.Kind == "agent" })))
	}
}

func (m *topModel) keyInLog(msg tea.KeyPressMsg) {
	k := m.keys
	switch {
	case key.Matches(msg, k.back, k.quit, k.log):
		m.screen = showList
		m.log.follow()
	case key.Matches(msg, k.help):
		m.screen = showHelp
		m.helpView.GotoTop()
	case key.Matches(msg, k.wrap):
		m.truncated = !m.truncated
	default:
		m.log.key(msg, k)
	}
}

func (m *topModel) keyInHelp(msg tea.KeyPressMsg) {
	if key.Matches(msg, m.keys.back, m.keys.quit, m.keys.help) {
		m.screen = showList
	} else {
		scroll(&m.helpView, msg, m.keys)
	}
}

// updateRows rebuilds the rows. The selected node stays selected; if it is gone, the node in its
// row is.
func (m *topModel) updateRows() {
	m.rows = arrange(m.nodes, m.used, m.order, m.filter)
	if i := m.row(m.selected); i >= 0 {
		m.at = i
		return
	}
	m.selectRow(m.at)
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

// open shows the output of the selected agent on the whole screen.
func (m *topModel) open() tea.Cmd {
	n, ok := m.node()
	if !ok || n.Kind != "agent" {
		return m.showNote(m.selected + " is a supervisor, which has no output of its own; select an agent")
	}
	m.screen = showLog
	return nil
}

func (m *topModel) attach() tea.Cmd {
	n, ok := m.node()
	if !ok {
		return nil
	}
	if err := look.Attachable(n); err != nil {
		return m.showNote(err.Error())
	}
	return m.fleet.attach(n.Path, func(err error) tea.Msg {
		if err != nil {
			return noteMsg(err.Error())
		}
		return noteMsg("")
	})
}

func (m *topModel) act(a topAction) tea.Cmd {
	m.noteID++ // so that no timer clears it before the action is done
	m.note = fmt.Sprintf("%s %s …", a.action, a.path)
	return func() tea.Msg {
		if err := m.fleet.act(a.path, a.action); err != nil {
			return noteMsg(strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return noteMsg(fmt.Sprintf("%s %s: done", a.action, a.path))
	}
}
