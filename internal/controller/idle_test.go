package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// idleTree is a tree of 100 agents that call a model: some only when a person asks, some have a budget of half a
// second, some run at seven in the morning, some have just done their work, and some wait for one of two accounts.
func idleTree(t testing.TB) *spec.Tree {
	t.Helper()
	morning, err := cron.Parse("0 7 * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	var all []spec.Decl
	for i := range 100 {
		f := aidefile.Default()
		f.Persona.Name, f.Policy = fmt.Sprintf("a%d", i), aidefile.Kept()
		settings := aidefile.DefaultSettings("/")
		switch i % 5 {
		case 1:
			f.Triggers = []aidefile.Trigger{{Kind: aidefile.Cron, Schedule: morning}}
		case 3:
			settings.Command = []string{"codex", "exec", "--json", "-"}
		case 4:
			settings.Command = []string{"gemini", "--output-format", "stream-json"}
		}
		aide := &aidefile.Agent{Path: "/Aidefile", File: f, Settings: settings}
		a := &spec.Agent{Name: f.Persona.Name, Dir: "/", Aide: aide}
		a.Restart, a.Backoff, a.Limit = f.Policy.Child(0)
		all = append(all, spec.Decl{Agent: a})
	}
	tree, problems := spec.Assemble(spec.Node{Name: "t"}, all)
	if problems != nil {
		t.Fatal(problems)
	}
	tree.Patrol = spec.DefaultPatrol()
	b := spec.Budget{Name: "short", Per: spec.PerRun, Time: time.Second / 2}
	for i := 0; i < 100; i += 10 {
		b.Of = append(b.Of, fmt.Sprintf("a%d", i))
	}
	tree.Budgets = []spec.Budget{b}
	return tree
}

// A tree that has nothing to do calls no model: no patrol, quota, budget or policy starts a run in an hour.
func TestIdleTreeStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		for i := range 100 {
			s.plays(fmt.Sprintf("t/a%d", i), part{lives: time.Second, exit: goodEnd})
		}
		p := raise(t, s, memory.New(), idleTree(t))
		defer p.close()
		fire := func(first, step int) {
			for i := first; i < 100; i += step {
				err := p.triggers.Fire(context.Background(), fmt.Sprintf("a%d", i), "")
				if _, waits := errors.AsType[*supervisor.RetryError](err); err != nil && !waits {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
		}
		fire(0, 10)
		fire(2, 5)
		limit := agentcli.Verdict{Obstacle: outcome.UsageLimit, Reason: "used up", Reset: time.Now().Add(2 * time.Hour)}
		login := agentcli.Verdict{Obstacle: outcome.Authentication, Reason: "not logged in"}
		for path, v := range map[string]agentcli.Verdict{"t/a3": limit, "t/a4": login} {
			if p.quotas.Ended(path, agentcli.Record{Verdict: v}) == nil {
				t.Fatal("the account of", path, "is open")
			}
		}
		fire(3, 5)
		fire(4, 5)
		starts := func() (n int) {
			for i := range 100 {
				n += s.starts(fmt.Sprintf("t/a%d", i))
			}
			return n
		}
		before := starts()
		if before != 30 {
			t.Fatalf("%d runs, expected those of 30 agents", before)
		}
		for i := range 100 {
			expected := supervisor.Stopped
			if i%10 == 0 || i%5 >= 3 {
				expected = supervisor.Restarting // shown as waiting
			}
			if state := p.state(fmt.Sprintf("t/a%d", i)); state != expected {
				t.Fatalf("a%d is %v, expected %v", i, state, expected)
			}
		}
		fired := len(p.happened(event.AgentFired))
		time.Sleep(time.Hour)
		if n := starts() - before; n != 0 {
			t.Errorf("%d runs in an hour without work", n)
		}
		if n := len(p.happened(event.AgentFired)) - fired; n != 0 {
			t.Errorf("%d triggers have fired", n)
		}
		if n := p.happened(event.AgentCrashed, event.AgentStartFailed, event.AgentQuarantined); len(n) > 0 {
			t.Errorf("failures: %q", n)
		}
		time.Sleep(time.Hour + 10*time.Minute) // until the reset, a random delay, and the proof of the one that goes first
		if n := starts() - before; n != 20 {
			t.Errorf("%d runs after the reset, expected those of 20 agents", n)
		}
	})
}
