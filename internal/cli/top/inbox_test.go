package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/question"
)

// askingFleet returns a fleet with two questions and a message.
func askingFleet() *fakeFleet {
	f := shopFleet()
	at := time.Now().Add(-5 * time.Minute)
	f.questions = []question.Question{
		{ID: "q-1", From: "t/api", Text: "Which name?", At: at, State: question.Open},
		{ID: "q-2", From: "t/shop/web", Text: "Deploy\x1b[2J now?", Options: []string{"yes", "no"}, Default: "no",
			At: at, Deadline: time.Now().Add(4*time.Minute + 30*time.Second), State: question.Open},
	}
	f.messages = []mail.Message{{ID: "m-1", From: "t/api", Subject: "a report", At: at}}
	return f
}

func TestTopAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		keys  string // without spaces, which would collapse
		shows string
		want  []string
	}{
		{"enter 1", "answer q-2: 1\x1b[7m \x1b[0m is yes; Enter sends it", nil},
		{"enter 1 enter", "q-2 is answered", []string{"answer q-2 1"}},
		{"2 enter", "q-2 is answered", []string{"answer q-2 2"}},
		{"2 esc", "q-2: not answered", nil},
		{"enter enter", "the answer is empty", nil},
		{"enter n x backspace o enter", "q-2 is answered", []string{"answer q-2 no"}},
		{"enter s q d", "answer q-2: sqd", nil}, // letters are text
		{"up enter B o b enter", "q-1 is answered", []string{"answer q-1 Bob"}},
		{"up 1 enter", "answer q-1: \x1b", nil}, // a digit begins no text
		{"s y r y S", "Enter answer or read", nil},
	} {
		f := askingFleet()
		d := newTopTest(t, f, 80, 24)
		d.press("i")
		d.shows("inbox: 2 questions, 1 message", "> q-2  t/shop/web", "Deploy now?", "1  yes", "in 4m")
		d.press(strings.Fields(test.keys)...)
		d.shows(test.shows)
		if !slices.Equal(d.calls, test.want) {
			t.Errorf("%s: %q, want %q", test.keys, d.calls, test.want)
		}
	}
}

// An answer belongs to the question for which it was begun, and its text outlives a failure.
func TestTopAnswerFails(t *testing.T) {
	t.Parallel()
	f := askingFleet()
	d := newTopTest(t, f, 80, 24)
	d.press("i")
	d.press("1")
	f.questions = f.questions[:1] // somebody else has answered it
	d.m.inbox.asked = time.Time{}
	d.press()
	d.shows("> m-1", "── q-2 ──", "Deploy now?", "answer q-2: 1")
	f.fails = errors.New("no longer\nopen")
	d.press("enter")
	d.shows("no longer; open")
	f.fails = nil
	d.press("0") // shows the text again
	d.shows("answer q-2: 10")
	d.m.Update(tea.PasteMsg{Content: "two\r\nlines\x1b"})
	d.shows("answer q-2: 10two lines")
	d.press("ctrl+w", "enter")
	if want := []string{"answer q-2 1", "answer q-2 10two "}; !slices.Equal(d.calls, want) {
		t.Errorf("%q, want %q", d.calls, want)
	}
	// While it is being sent, it is neither changed nor sent again.
	d.press("up", "enter", "a")
	_, send := d.m.Update(keyOf("enter"))
	d.m.Update(keyOf("b"))
	if _, again := d.m.Update(keyOf("enter")); again != nil || d.m.inbox.text != "a" {
		t.Errorf("%q, sent again: %v", d.m.inbox.text, again != nil)
	}
	d.m.Update(send())
	if d.m.inbox.answering != nil {
		t.Error("it is still being answered")
	}
}

func TestTopMail(t *testing.T) {
	t.Parallel()
	f := askingFleet()
	d := newTopTest(t, f, 80, 24)
	d.press("i")
	d.press("end")
	d.shows("> m-1", "a report")
	d.press("enter")
	d.m.inbox.asked = time.Time{}
	d.press() // it is read now, and still shown
	d.shows("> m-1", "the body of m-1")
	d.press("up")
	d.m.inbox.asked = time.Time{}
	if d.press(); strings.Contains(d.screen(), "m-1") {
		t.Errorf("it is still there:\n%s", d.screen())
	}
	f.questions = nil
	d.m.inbox.asked = time.Time{}
	d.press("enter")
	d.m.inbox.answering = nil
	d.press("enter", "1", "up", "down", "end")
	d.shows("no open questions, and no unread messages")
	f.messages = []mail.Message{{ID: "m-9"}}
	d.m.inbox.asked = time.Time{}
	d.press()
	f.fails = errors.New("it fails")
	d.press("enter")
	d.shows("no such message")
}

// The inbox is asked for once a second, and only while it is shown. Below the tree it is a list.
func TestTopInboxPane(t *testing.T) {
	t.Parallel()
	f := askingFleet()
	for i := range 50 {
		f.questions = append(f.questions, question.Question{ID: fmt.Sprintf("q-%d", 3+i), From: "t/api",
			Text: strings.Repeat("a line\n", 50)})
	}
	d := newTopTest(t, f, 80, 24)
	now := time.Now()
	wants := func(what string, want int) {
		t.Helper()
		if ask := d.m.ask(now); ask != nil {
			if d.m.ask(now) != nil {
				t.Errorf("%s: asks while a request is under way", what)
			}
			d.m.Update(ask())
		}
		if f.inboxes != want {
			t.Errorf("%s: asked for %d times, want %d", what, f.inboxes, want)
		}
	}
	wants("the log is shown", 0)
	d.m.Update(keyOf("tab"))
	d.m.Update(keyOf("tab"))
	wants("it is shown", 1)
	wants("at once", 1)
	d.shows("── inbox: 52 questions, 1 message ──", "q-2   t/shop/web")
	now = now.Add(refreshInterval)
	f.questions[1].From = "t/fla"
	wants("after a second", 2)
	d.shows("q-2   t/fla")
	now = now.Add(refreshInterval)
	slow := d.m.ask(now)
	now = now.Add(refreshInterval)
	wants("while a request is under way", 2)
	d.m.Update(slow())
	d.m.Update(keyOf("enter"))
	d.m.Update(keyOf("end"))
	d.shows("> m-1")
	d.m.Update(keyOf("up"))
	d.shows("> q-52", "t/api asks")
	d.m.Update(keyOf("pgdown"))
	if d.m.inbox.view.YOffset() == 0 {
		t.Error("the question is not scrolled")
	}
	d.m.Update(keyOf("up"))
	if d.m.inbox.view.YOffset() != 0 {
		t.Error("the next question does not begin at its first line")
	}
	d.m.Update(tea.WindowSizeMsg{Width: 40, Height: 6})
	d.shows("> q-51", "Esc back")
	d.m.Update(keyOf("tab"))
	d.shows("── t/shop/web ──")
}
