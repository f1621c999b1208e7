package controller

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestAttention checks that the status names each agent that needs a person,
// and no other.
func TestAttention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/q", part{lives: time.Second})
		s.plays("t/qc", part{lives: time.Second, exit: supervisor.Exit{Kind: supervisor.Normal}})
		s.plays("t/g", part{lives: time.Second})
		s.plays("t/crash", part{lives: 10 * time.Second})
		s.plays("t/clean", part{lives: 10 * time.Second, exit: supervisor.Exit{Kind: supervisor.Normal}})
		s.plays("t/slow", part{lives: 2 * time.Minute})
		s.plays("t/p/a", part{lives: time.Second})
		tree := treeOf(t, "q", "qc", "g", "crash", "clean", "slow", "well", "p(a b)")
		edited(t, tree, "q", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, time.Hour) })
		edited(t, tree, "qc", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, time.Hour) })
		edited(t, tree, "g", func(a *spec.Agent) { a.Limit = supervisor.GivingUp(1) })
		edited(t, tree, "a", func(a *spec.Agent) { a.Limit = supervisor.Limit{} })
		tree.Root.Limit = supervisor.Limit{Max: supervisor.Unlimited}
		for _, c := range tree.Root.Children {
			if c.Node != nil {
				c.Node.Limit = supervisor.Pausing(1, time.Hour)
			}
		}
		p := raise(t, s, memory.New(), tree)
		defer p.close()
		time.Sleep(35 * time.Second) // three ends of those that live for 10 s
		st, err := p.status.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"t/q quarantined: exit code 1; 2/2 starts in 1h -> coppice logs t/q, then coppice reset t/q",
			`t/qc quarantined: it keeps ending with exit code 0; restart = "on-failure" would leave it stopped; 2/2 starts in 1h -> coppice logs t/qc, then coppice reset t/qc`,
			"t/g given_up: exit code 1; 1/1 restarts in a row -> coppice logs t/g, then coppice reset t/g",
			"t/crash crash_loop: exit code 1 -> coppice logs t/crash",
			`t/clean restart_loop: it keeps ending with exit code 0; restart = "on-failure" would leave it stopped -> coppice logs t/clean`,
			"t/p paused: limit reached, paused until resumed -> coppice resume t/p",
		}
		var got []string
		for _, a := range st.Attention {
			got = append(got, a.Path+" "+a.State+": "+a.Reason+" -> "+a.Command)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := st.Summary; n["crash_loop"] != 1 || n["quarantined"] != 2 || n["running"] != 4 {
			t.Errorf("summary: %v", n)
		}
		for path, want := range map[string]status.Loop{"t/crash": status.CrashLoop, "t/clean": status.CleanLoop, "t/slow": "", "t/well": "", "t/q": ""} {
			if nodes, err := p.status.Nodes(context.Background(), path); err != nil || nodes[0].Loop != want {
				t.Errorf("%s: loop %q, want %q (%v)", path, nodes[0].Loop, want, err)
			}
		}
	})
}

// TestNeedsInput checks that agents that run and wait for an answer are counted,
// and neither those that are down, whose questions stay in the inbox, nor
// supervisors that their limit has paused.
func TestNeedsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		p := raise(t, s, memory.New(), pausingTree(t))
		defer p.close()
		ctx := context.Background()
		want := func(when string, agents, questions int) {
			t.Helper()
			time.Sleep(time.Second)
			st, err := p.status.Status(ctx)
			if err != nil || st.NeedsInput != agents || st.Inbox.Questions != questions {
				t.Errorf("%s: %d agents need input, %d questions (%v), want %d and %d", when, st.NeedsInput, st.Inbox.Questions, err, agents, questions)
			}
			waiting := 0
			for _, a := range st.Attention {
				if a.State == "needs_input" {
					waiting++
				}
			}
			if waiting != agents {
				t.Errorf("%s: the status names %d: %+v", when, waiting, st.Attention)
			}
		}
		for _, path := range []string{"t/well", "t/p/b"} {
			for _, text := range []string{"one", "two"} {
				if _, _, err := p.questions.Ask(ctx, question.Draft{From: path, Incarnation: 1, Text: text}); err != nil {
					t.Fatal(err)
				}
			}
		}
		want("two agents ask", 2, 4)
		if _, err := p.control.Act(ctx, "t/well", control.Stop); err != nil {
			t.Fatal(err)
		}
		want("one is stopped", 1, 4)
		s.on("t/p/a").end(supervisor.Exit{Kind: supervisor.Failure})
		want("their supervisor is paused", 1, 5)
		if _, err := p.control.Act(ctx, "t/well", control.Start); err != nil {
			t.Fatal(err)
		}
		want("and started", 2, 5)
	})
}
