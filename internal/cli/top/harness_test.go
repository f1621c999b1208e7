package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/usage"
)

// fakeFleet is a fleet with fixed data that records calls.
type fakeFleet struct {
	data      snapshot
	calls     []string
	fails     error
	followed  string
	text      map[string][]string
	explained []string // paths
	questions []question.Question
	messages  []mail.Message
	inboxes   int    // how often the inbox was asked for
	rule      string // why all nodes are in their state
}

func (f *fakeFleet) fetch() (snapshot, error) { return f.data, f.fails }

func (f *fakeFleet) explain(path string) (status.Explanation, error) {
	f.explained = append(f.explained, path)
	i := slices.IndexFunc(f.data.nodes, func(n status.Node) bool { return n.Path == path })
	if i < 0 {
		return status.Explanation{}, errors.New("no such node")
	}
	return status.Explanation{Node: f.data.nodes[i], Rule: f.rule}, f.fails
}

func (f *fakeFleet) inbox() ([]question.Question, []mail.Message, error) {
	f.inboxes++
	return f.questions, f.messages, f.fails
}

func (f *fakeFleet) answer(q question.Question, text string) (string, error) {
	f.calls = append(f.calls, fmt.Sprintf("answer %s %s", q.ID, text))
	if f.fails == nil {
		same := func(o question.Question) bool { return o.ID == q.ID }
		f.questions = slices.DeleteFunc(slices.Clone(f.questions), same)
	}
	return q.ID + " is answered", f.fails
}

func (f *fakeFleet) read(id string) (mail.Message, error) {
	f.calls = append(f.calls, "read "+id)
	i := slices.IndexFunc(f.messages, func(m mail.Message) bool { return m.ID == id })
	if i < 0 || f.fails != nil {
		return mail.Message{}, errors.New("no such message")
	}
	read := f.messages[i]
	read.Body = "the body of " + id
	f.messages = slices.Delete(slices.Clone(f.messages), i, i+1)
	return read, nil
}

func (f *fakeFleet) act(path string, action control.Action) error {
	f.calls = append(f.calls, fmt.Sprint(action, " ", path))
	return f.fails
}

func (f *fakeFleet) seen() { f.calls = append(f.calls, "seen") }

func (f *fakeFleet) follow(path string) { f.followed = path }

func (f *fakeFleet) output() logTail {
	lines := f.text[f.followed]
	return logTail{lines, len(lines)}
}

func (f *fakeFleet) attach(path string, done func(error) tea.Msg) tea.Cmd {
	f.calls = append(f.calls, "attach "+path)
	return func() tea.Msg { return done(f.fails) }
}

// shopFleet returns a root with a supervisor of two agents, and two more agents.
func shopFleet() *fakeFleet {
	agent := func(path, state string) status.Node {
		n := status.Node{Path: path, Kind: "agent", State: state, Incarnation: 1, LimitMax: 5}
		if state == status.StateRunning {
			n.Uptime = 60
		}
		return n
	}
	f := &fakeFleet{text: map[string][]string{}}
	f.data = snapshot{
		status: status.Status{Project: "t", Summary: map[string]int{"running": 3},
			Controller: status.Controller{Uptime: 90}},
		nodes: []status.Node{
			{Path: "t", Kind: "supervisor", State: status.StateRunning, Strategy: "one_for_one"},
			{Path: "t/shop", Kind: "supervisor", State: status.StateRunning, Strategy: "one_for_all"},
			agent("t/shop/web", status.StateRunning), agent("t/shop/flaky", status.StateRunning),
			agent("t/api", status.StateRunning), agent("t/fla", status.StateStopped),
		},
		used: map[string]usage.Resources{
			"t/shop/web":   {CPU: 0.1, Memory: 1 << 20},
			"t/shop/flaky": {CPU: 0.9, Memory: 2 << 20},
			"t/api":        {CPU: 0.2, Memory: 3 << 20},
		},
	}
	f.data.nodes[3].Restarts, f.data.nodes[3].Uptime = 4, 5
	return f
}

// topTest drives a model as Bubble Tea does, except for timers.
type topTest struct {
	*testing.T
	*fakeFleet
	m *topModel
}

func newTopTest(t *testing.T, f *fakeFleet, width, height int) *topTest {
	d := &topTest{t, f, newTopModel(f, terminal.Paint{}, f.data)}
	d.m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	d.m.Update(drawMsg{})
	return d
}

// specialKeys are the keys that are not letters.
var specialKeys = map[string]rune{
	"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
	"home": tea.KeyHome, "end": tea.KeyEnd, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace,
	"tab": tea.KeyTab, "space": tea.KeySpace,
	"f4": tea.KeyF4, "f6": tea.KeyF6, "f7": tea.KeyF7, "f9": tea.KeyF9, "f10": tea.KeyF10,
}

// keyOf returns the message of a key.
func keyOf(name string) tea.KeyPressMsg {
	if code, ok := specialKeys[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if letter, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// press presses keys and runs their commands. It reports whether top quits.
func (d *topTest) press(keys ...string) (quit bool) {
	for _, k := range keys {
		_, cmd := d.m.Update(keyOf(k))
		if cmd == nil || d.m.note != "" && !strings.HasSuffix(d.m.note, " …") { // it is only a timer
			continue
		}
		switch msg := cmd().(type) {
		case tea.QuitMsg:
			quit = true
		case noteMsg, answeredMsg, readMsg:
			d.m.Update(msg)
		}
	}
	d.draw()
	return quit
}

// draw lets the model ask for what it shows, and then draws it.
func (d *topTest) draw() {
	if ask := d.m.ask(time.Now()); ask != nil {
		d.m.Update(ask())
	}
	d.m.Update(drawMsg{})
}

func (d *topTest) screen() string { return strings.Join(d.m.lines(), "\n") }

func (d *topTest) shows(texts ...string) {
	d.Helper()
	for _, text := range texts {
		if screen := d.screen(); !strings.Contains(screen, text) {
			d.Errorf("no %q on the screen:\n%s", text, screen)
		}
	}
}
