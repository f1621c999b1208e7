package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// pausingTree has a supervisor p that the first failure in it pauses.
func pausingTree(t testing.TB) *spec.Tree {
	tree := treeOf(t, "well", "p(a b)")
	for _, name := range []string{"a", "b"} {
		edited(t, tree, name, func(a *spec.Agent) { a.Limit = supervisor.Limit{} })
	}
	for _, c := range tree.Root.Children {
		if c.Node != nil {
			c.Node.Limit = supervisor.Pausing(1, time.Hour)
		}
	}
	return tree
}

// A paused supervisor asks one question, whatever fails in it and whatever is
// restarted. The answer acts, and a question that is overtaken is taken back.
func TestPausedSupervisorAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := newStage(), memory.New()
		p := raise(t, s, db, pausingTree(t))
		fail := func(paths ...string) {
			t.Helper()
			for _, path := range paths {
				s.on(path).end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		asked := func(when string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			var got []string
			for _, q := range p.questions.List("", true) {
				got = append(got, fmt.Sprintf("%s %s %s%s", q.ID, q.From, q.State, q.Answer))
				if !slices.Equal(q.Options, []string{"resume", "stop"}) {
					t.Errorf("%s, it can be answered with %v", when, q.Options)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		state := func(path string) string {
			t.Helper()
			nodes, err := p.status.Nodes(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			return nodes[0].State
		}
		answer := func(id, text string) {
			t.Helper()
			if _, err := p.questions.Answer(context.Background(), id, text, "ann"); err != nil {
				t.Error(err)
			}
		}
		asked("while all is well")
		fail("t/p/a", "t/p/b")
		asked("paused", "q-1 t/p open")
		st, err := p.status.Status(context.Background())
		if err != nil || st.Inbox.Questions != 1 || st.NeedsInput != 0 || state("t/p") != "paused" || state("") != status.Degraded {
			t.Errorf("status: %+v, %v; p is %s, the root %s", st, err, state("t/p"), state(""))
		}
		x, err := p.status.Explain(context.Background(), "t/p")
		if err != nil || x.Hint != "coppice answer q-1" || !strings.Contains(x.Next, "ended with boom (limit: ") {
			t.Errorf("explained by %+v, %v", x, err)
		}
		p.close()
		p = raise(t, s, db, pausingTree(t))
		asked("with the next daemon", "q-1 t/p open")
		answer("q-1", "resume")
		asked("resumed", "q-1 t/p answeredresume")
		if state("t/p") != "running" || state("t/p/a") != "running" {
			t.Errorf("p is %s, a %s", state("t/p"), state("t/p/a"))
		}
		time.Sleep(2 * time.Hour) // past the probe
		fail("t/p/a")
		asked("paused again", "q-1 t/p answeredresume", "q-2 t/p open")
		if _, err := p.control.Act(context.Background(), "t/p", control.Resume); err != nil {
			t.Fatal(err)
		}
		asked("resumed by a command", "q-1 t/p answeredresume", "q-2 t/p withdrawn")
		time.Sleep(2 * time.Hour)
		fail("t/p/a")
		answer("q-3", "stop")
		asked("stopped", "q-1 t/p answeredresume", "q-2 t/p withdrawn", "q-3 t/p answeredstop")
		if state("t/p") != "stopped" || state("") != "running" {
			t.Errorf("p is %s, the root %s", state("t/p"), state(""))
		}
		p.close()
		p = raise(t, s, db, pausingTree(t))
		defer p.close()
		asked("with another daemon", "q-1 t/p answeredresume", "q-2 t/p withdrawn", "q-3 t/p answeredstop")
		if n, err := p.status.Nodes(context.Background(), "t/p"); err != nil || !n[0].StoppedByHand {
			t.Errorf("it was stopped: %+v, %v", n, err)
		}
	})
}
