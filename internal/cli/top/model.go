package top

import (
	"fmt"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
)

// topFleet is the fleet that top shows and acts on.
type topFleet interface {
	// fetch returns the current state of the fleet.
	fetch() (snapshot, error)
	// explain says why a node is in its state.
	explain(path string) (status.Explanation, error)
	// inbox returns open questions to people and their unread messages, without bodies.
	inbox() ([]question.Question, []mail.Message, error)
	// answer answers a question with a text or the number of an option. It returns a line that says so.
	answer(q question.Question, text string) (done string, err error)
	// read returns a message with its body, and marks it as read.
	read(id string) (mail.Message, error)
	// act performs an action on a node and returns when it is done.
	act(path string, action control.Action) error
	// follow switches output to an agent; an empty path stops it.
	follow(path string)
	// output returns the end of the output of the followed agent.
	output() logTail
	// seen tells the daemon that a person is using the screen, which holds notifications back.
	seen()
	// attach attaches the terminal to an agent.
	attach(path string, done func(error) tea.Msg) tea.Cmd
}

// topModel is the Bubble Tea model of top. Its methods change only the model; commands call the
// fleet.
type topModel struct {
	fleet topFleet
	keys  topKeys
	canvas
	list
	err    error // of the last fetch, which left the snapshot as it was
	typing bool  // the filter is being edited

	pending   *topAction // waits for confirmation
	note      string     // the result of the last key
	noteID    int        // number of the current note
	pressed   bool       // a key, since the daemon was told that a person looks
	told      time.Time  // when it was told that
	truncated bool       // cut long lines of output instead of wrapping them
	pane      pane
	explain   explainView
	inbox     inboxView
	screen    topScreen
	returnTo  topScreen // from the help
	log       logView
	helpView  viewport.Model
}

// topScreen is a view that fills the screen.
type topScreen int

const (
	showList topScreen = iota
	showPane           // the pane
	showHelp
)

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
		fleet: fleet, keys: newTopKeys(), canvas: canvas{paint: p},
		list: list{snapshot: first, collapsed: map[string]bool{}},
		log:  newLogView(), explain: explainView{view: viewport.New()}, inbox: inboxView{view: viewport.New()},
		helpView: viewport.New(),
	}
	m.chosen = func(output string) {
		m.fleet.follow(output)
		m.log = newLogView()
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
		m.width, m.height, m.table = msg.Width, msg.Height, nil
	case tea.KeyPressMsg:
		m.note, m.pressed = "", true
		return m.key(msg)
	case tea.PasteMsg:
		switch {
		case m.tooSmall():
		case m.typing:
			m.setFilter(m.filter + printable(msg.Content))
		case m.inbox.answering != nil && !m.inbox.sending:
			m.inbox.text += pasted(msg.Content)
		}
	case drawMsg:
		m.log.take(m.fleet.output())
		return tea.Batch(draw(), m.ask(time.Now()))
	case inbox:
		m.inbox.take(msg)
	case answeredMsg:
		return m.takeAnswered(msg)
	case readMsg:
		return m.takeRead(msg)
	case explanation:
		m.explain.take(msg)
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
		return tea.Batch(m.fetch, m.seen(time.Now()))
	}
	return nil
}

// seenInterval is the time between two calls that tell the daemon that a person looks.
const seenInterval = 20 * time.Second

// seen returns a command that tells the daemon that a person looks, if he has pressed a key.
func (m *topModel) seen(now time.Time) tea.Cmd {
	if !m.pressed || now.Sub(m.told) < seenInterval {
		return nil
	}
	m.pressed, m.told = false, now
	return func() tea.Msg {
		m.fleet.seen()
		return nil
	}
}

// keepNote shows a note that no timer clears, while something is being done.
func (m *topModel) keepNote(note string) {
	m.noteID++
	m.note = note
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
	case m.tooSmall(): // nothing is done unseen
		if key.Matches(msg, m.keys.quit) && !m.typing && m.inbox.answering == nil {
			return tea.Quit
		}
	case m.pending != nil:
		pending := *m.pending
		m.pending = nil
		if s := msg.String(); s == "y" || s == "Y" {
			return m.act(pending)
		}
		return m.showNote(fmt.Sprintf("%s: not done", pending.action))
	case m.screen == showHelp:
		m.keyInHelp(msg)
	case m.inbox.answering != nil:
		return m.keyInAnswer(msg)
	case m.screen == showPane:
		return m.keyInPane(msg)
	case m.typing:
		m.keyInFilter(msg)
	default:
		return m.keyInList(msg)
	}
	return nil
}

// help explains the keys, on the whole screen.
func (m *topModel) help() {
	m.screen, m.returnTo = showHelp, m.screen
	m.helpView.GotoTop()
}

func (m *topModel) keyInHelp(msg tea.KeyPressMsg) {
	if key.Matches(msg, m.keys.back, m.keys.quit, m.keys.help) {
		m.screen = m.returnTo
	} else {
		scroll(&m.helpView, msg, m.keys)
	}
}
