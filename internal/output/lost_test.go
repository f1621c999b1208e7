package output

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/token"
)

// A node that does not answer has a line that says so, and delays nothing else for long. A follower gets its part when
// it is back.
func TestLogsOfLostNode(t *testing.T) {
	t.Parallel()
	machines := newFiles(t)
	c := lead(t, machines[0], machines, allPlaces, "t/a", "t/b")
	machines[1].setCut(true)
	const note = "[coppice: node n2 does not answer: its part of the log is missing]"
	want := "b2 a3 b4 a5 b7 a8 a9 " + note + " " + note // once for each agent
	for range 2 {
		begin := time.Now()
		got, _ := c.collect(t, Query{Lines: -1})
		if took := time.Since(begin); strings.Join(got, " ") != want || took > 5*time.Second {
			t.Errorf("%q, after %v", got, took)
		}
	}
	if got, _ := c.collect(t, Query{Lines: 1, Grep: "a3", Paths: []string{"t/a"}}); strings.Join(got, " ") != "a3 "+note {
		t.Errorf("with a pattern: %q", got)
	}
	var live []string
	file, _ := machines[0].local.Log("t/b")
	w := logfile.NewWriter(file)
	after := make(map[string]string)
	for l, err := range c.Logs(ctxOf(t), Query{Lines: -1, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Live:
			live = []string{}
			w.Append([]byte("b10\n"))
		case l.Line == "b10":
			machines[1].setCut(false)
		}
		if after[l.Path] = l.Position; l.Position == "" && !l.Live {
			t.Errorf("%q has no position", l.Line)
		}
		if live != nil && !l.Live {
			live = append(live, l.Line)
		}
		if len(live) == 4 {
			break
		}
	}
	if got := strings.Join(live, " "); got != "b10 a0 a1 a6" {
		t.Errorf("a follower got %s", got)
	}
	if got, _ := c.collect(t, Query{Lines: -1, Follow: true, After: after}); got != nil {
		t.Errorf("after that: %q", got)
	}
	if t.Failed() {
		t.Log(after)
	}
}

// Live goes on after its node was cut off for long.
func TestLiveOfLostNode(t *testing.T) {
	t.Parallel()
	machines := newFiles(t)
	c := lead(t, machines[0], machines, allPlaces, "t/a")
	var got []string
	session := &scripted{follow: func(grew func()) error {
		machines[2].setCut(true)
		grew()
		machines[2].setCut(false)
		for ctx := ctxOf(t); len(got) == 0 && ctx.Err() == nil; { // the client connects again in the background
			grew()
		}
		return nil
	}}
	err := c.Live(ctxOf(t), token.Caller{Path: "t/a"}, time.Time{}, session, func(text string) { got = append(got, text) })
	if err != nil || strings.Join(got, " ") != "a8 a9" {
		t.Errorf("%q, %v", got, err)
	}
	machines[2].setCut(true)
	session.follow = func(grew func()) error { grew(); return nil }
	if err := c.Live(ctxOf(t), token.Caller{Path: "t/a"}, time.Time{}, session, nil); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("of a node that stays cut off: %v", err)
	}
}

// The line that an agent is writing is told again when its node is back.
func TestUnfinishedOfLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		session := &scripted{unfinished: func(f func(string)) error {
			if calls++; calls < 3 {
				return runtime.ErrUnknown
			}
			f("half")
			return nil
		}}
		c := &controller{agents: []string{"t/a"}, session: map[string]runtime.Session{"t/a": session}}
		begin := time.Now()
		for l, err := range New(Options{Tree: c, Agents: c}).Unfinished(t.Context(), "t/a") {
			if took := time.Since(begin); err != nil || l.Text != "half" || took < farInterval || took > 3*farInterval {
				t.Errorf("%q, %v, after %v", l.Text, err, took)
			}
			break
		}
	})
}
