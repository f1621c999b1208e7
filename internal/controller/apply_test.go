package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// becomes applies a tree and waits until nothing moves.
func (p *play) becomes(tree *spec.Tree) spec.Changes {
	p.t.Helper()
	changes, err := p.apply(context.Background(), tree, fleet.Config{Revision: "next"})
	if err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	return changes
}

func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to []string
		cast     string // path and number of all that live in the end
	}{
		{"the same", []string{"a", "s(b c)"}, []string{"a", "s(b c)"}, "t/a 1, t/s/b 1, t/s/c 1"},
		{"an agent more", []string{"a"}, []string{"a", "b"}, "t/a 1, t/b 1"},
		{"an agent more in front", []string{"b"}, []string{"a", "b"}, "t/a 1, t/b 1"},
		{"an agent less", []string{"a", "b"}, []string{"b"}, "t/b 1"},
		{"an agent changed", []string{"a", "b"}, []string{"a=x", "b"}, "t/a 2, t/b 1"},
		{"another order", []string{"a", "b", "c"}, []string{"c", "a", "b"}, "t/a 1, t/b 1, t/c 1"},
		{"a supervisor more", []string{"a"}, []string{"a", "s(b c)"}, "t/a 1, t/s/b 1, t/s/c 1"},
		{"a supervisor less", []string{"a", "s(b c)"}, []string{"a"}, "t/a 1"},
		{"more in a supervisor", []string{"s(b)"}, []string{"s(b c)"}, "t/s/b 1, t/s/c 1"},
		{"more in a group", []string{"s:one_for_all(b)"}, []string{"s:one_for_all(c b)"}, "t/s/b 1, t/s/c 1"},
		{"less in a supervisor", []string{"s(b c)"}, []string{"s(c)"}, "t/s/c 1"},
		{"changed in a group", []string{"s:one_for_all(b c)"}, []string{"s:one_for_all(b=x c)"}, "t/s/b 2, t/s/c 1"},
		{"another strategy", []string{"s(b c)"}, []string{"s:one_for_all(b c)"}, "t/s/b 1, t/s/c 1"},
		{"into a supervisor", []string{"a", "b"}, []string{"s(a)", "b"}, "t/b 1, t/s/a 1"},
		{"out of a supervisor", []string{"s(a b)"}, []string{"a", "s(b)"}, "t/a 1, t/s/b 1"},
		{"an agent becomes a supervisor", []string{"a", "x"}, []string{"a", "x(b)"}, "t/a 1, t/x/b 1"},
		{"a supervisor becomes an agent", []string{"a", "x(b)"}, []string{"a", "x"}, "t/a 1, t/x 1"},
		{"everything", []string{"a", "s(b c)", "d"}, []string{"e", "r(b)", "d=x", "s(f)"}, "t/d 2, t/e 1, t/r/b 1, t/s/f 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlay(t, treeOf(t, tt.from...))
				defer p.close()
				p.becomes(treeOf(t, tt.to...))
				if got := p.stage.cast(); got != tt.cast {
					t.Errorf("there live %s, want %s", got, tt.cast)
				}
				if c := p.becomes(treeOf(t, tt.to...)); !c.Empty() {
					t.Errorf("the second time there are changes: %+v", c)
				}
				nodes, err := p.status.Nodes(context.Background(), "")
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range nodes {
					if n.State != supervisor.Running.String() {
						t.Errorf("%s is %s", n.Path, n.State)
					}
				}
			})
		})
	}
}

// What decides what becomes of an agent changes at once, and the agent does not notice.
func TestApplyLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a", "b"))
		defer p.close()
		c := p.becomes(edited(t, treeOf(t, "a", "b"), "a", func(a *spec.Agent) {
			a.Restart, a.Backoff = supervisor.Transient, supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Hour, Cap: time.Hour}
			a.Limit = supervisor.Quarantining(3, time.Hour)
			a.Shutdown.Grace = time.Minute
		}))
		if got := p.stage.cast(); got != "t/a 1, t/b 1" || !slices.Equal(c.Changed, []string{"t/a"}) {
			t.Fatalf("there live %s after %+v", got, c)
		}
		p.stage.on("t/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
		time.Sleep(time.Minute)
		if s := p.state("t/a"); s != supervisor.Restarting {
			t.Errorf("it is %v, want it to wait for its new backoff", s)
		}
		time.Sleep(time.Hour)
		p.stage.on("t/a").end(supervisor.Exit{Kind: supervisor.Normal})
		time.Sleep(time.Minute)
		if s := p.state("t/a"); s != supervisor.Stopped {
			t.Errorf("it is %v, want it to stay down after a clean exit", s)
		}
	})
}

// What people and limits have decided stays with the path.
func TestApplyKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func(command string) *spec.Tree {
			tree := treeOf(t, "a="+command, "b", "c")
			return edited(t, tree, "b", func(b *spec.Agent) { b.Limit = supervisor.Quarantining(2, time.Hour) })
		}
		p := newPlay(t, tree("x"))
		defer p.close()
		if _, err := p.control.Act(context.Background(), "a", control.Stop); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p.stage.on("t/b").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
			time.Sleep(time.Second)
		}
		for _, to := range []*spec.Tree{tree("y"), treeOf(t, "c"), tree("z")} {
			p.becomes(to)
			if got := p.stage.cast(); got != "t/c 1" {
				t.Errorf("there live %s", got)
			}
			if len(to.Root.Children) == 3 && p.state("t/a") != supervisor.Suspended {
				t.Errorf("what was stopped by hand is %v", p.state("t/a"))
			}
		}
		if s := p.state("t/b"); s != supervisor.Quarantined {
			t.Errorf("what was quarantined is %v", s)
		}
		time.Sleep(time.Hour)
		if got := p.stage.cast(); got != "t/b 3, t/c 1" {
			t.Errorf("when its quarantine is over there live %s", got)
		}
	})
}

// TestRepair checks that an agent that a limit or a delay holds is started at
// once when what it runs changes, and stays held when something else does.
func TestRepair(t *testing.T) {
	boom := part{lives: time.Millisecond}
	for name, held := range map[string]struct {
		change func(*spec.Agent)
		state  supervisor.State
	}{
		"quarantined": {func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, time.Hour) }, supervisor.Quarantined},
		"given up":    {func(a *spec.Agent) { a.Limit = supervisor.GivingUp(1) }, supervisor.GivenUp},
		"restarting": {func(a *spec.Agent) {
			a.Backoff = supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Hour, Cap: time.Hour}
		}, supervisor.Restarting},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, db := newStage(), memory.New()
				s.plays("t/a", boom)
				tree := func(word string) *spec.Tree { return edited(t, treeOf(t, word, "b"), "a", held.change) }
				p := raise(t, s, db, tree("a"))
				defer p.close()
				time.Sleep(time.Minute)
				if got := p.state("t/a"); got != held.state {
					t.Fatalf("it is %v, want %v", got, held.state)
				}
				before := s.starts("t/a")
				p.becomes(edited(t, tree("a"), "a", func(a *spec.Agent) { a.Shutdown.Grace = time.Minute }))
				if got := p.state("t/a"); got != held.state || s.starts("t/a") != before {
					t.Errorf("after a change of its grace it is %v, after %d starts", got, s.starts("t/a"))
				}
				s.plays("t/a", part{})
				p.becomes(tree("a=repaired"))
				if got := p.state("t/a"); got != supervisor.Running || s.on("t/a").launch.Argv[0] != "repaired" {
					t.Errorf("after its repair it is %v", got)
				}
				if all := p.happened(event.AgentDrifted); len(all) != 1 || !strings.HasSuffix(all[0], "t/a is started again, with fresh counters: changed since it failed: command") {
					t.Errorf("events: %q", all)
				}
				s.plays("t/a", boom)
				p.becomes(tree("a=worse"))
				time.Sleep(time.Minute)
				if got, starts := p.state("t/a"), s.starts("t/a"); got != held.state || starts > before+4 {
					t.Errorf("with a change that makes it fail again it is %v, after %d starts", got, starts)
				}
			})
		})
	}
}

// TestRepairOfFiles checks that an agent that is held is started when a file
// that it declares changes, also where the change was made without a daemon.
func TestRepairOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt.md")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		put("bad")
		s, db := newStage(), memory.New()
		s.plays("t/a", part{lives: time.Minute})
		tree := edited(t, treeOf(t, "a", "b"), "a", func(a *spec.Agent) {
			a.Files, a.Limit = []string{file}, supervisor.Quarantining(2, 10*time.Hour)
		})
		tree.RestorePolicy = spec.RestoreAll
		p := raise(t, s, db, tree)
		for range 2 { // by a running daemon, and by the next one
			time.Sleep(time.Hour)
			if got := p.state("t/a"); got != supervisor.Quarantined {
				t.Fatalf("it is %v, want it quarantined", got)
			}
			before := s.starts("t/a")
			put(fmt.Sprint("another one, after ", before))
			time.Sleep(time.Minute)
			if after := s.starts("t/a"); after == before {
				t.Errorf("it was not started again after %d starts", before)
			}
		}
		time.Sleep(time.Hour)
		p.Stop(true)
		<-p.Ended()
		put("good")
		s.plays("t/a", part{})
		p = raise(t, s, db, tree)
		defer p.close()
		time.Sleep(2 * time.Minute)
		if got := p.state("t/a"); got != supervisor.Running {
			t.Errorf("with another daemon it is %v", got)
		}
	})
}

// TestRepairInSupervisor checks that a supervisor that is held is started when
// what is in it changes.
func TestRepairInSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func(word string) *spec.Tree {
			tree := treeOf(t, "s("+word+" b)", "c")
			edited(t, tree, "a", func(a *spec.Agent) { a.Limit = supervisor.Limit{} })
			tree.Root.Children[0].Node.Limit = supervisor.Escalating(1, time.Hour)
			tree.Root.Limit = supervisor.Quarantining(2, time.Hour)
			return tree
		}
		s := newStage()
		s.plays("t/s/a", part{lives: time.Second})
		p := raise(t, s, memory.New(), tree("a"))
		defer p.close()
		time.Sleep(time.Minute)
		if got := p.state("t/s"); got != supervisor.Quarantined || s.cast() != "t/c 1" {
			t.Fatalf("it is %v, and there live %s", got, s.cast())
		}
		s.plays("t/s/a", part{})
		p.becomes(tree("a=repaired"))
		if got := p.state("t/s"); got != supervisor.Running {
			t.Errorf("after the repair it is %v, and there live %s", got, s.cast())
		}
	})
}

// A file that is valid, and asks for what cannot be changed, changes nothing.
func TestApplyRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a"))
		defer p.close()
		renamed := treeOf(t, "a=x")
		renamed.Root.Name = "u"
		moved := treeOf(t, "a=x")
		moved.Persistence.Backend = spec.Memory
		elsewhere := edited(t, treeOf(t, "a=x"), "a", func(a *spec.Agent) { a.Runtime = spec.Tmux })
		for _, tt := range []struct {
			tree *spec.Tree
			want string
		}{
			{renamed, `the name of the project has changed from "t" to "u", which takes a restart`},
			{moved, "where the state is kept has changed from sqlite to memory, which takes a restart"},
			{elsewhere, "agent t/a: there is no runtime tmux here"},
		} {
			if _, err := p.apply(context.Background(), tt.tree, fleet.Config{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		}
		if got := p.stage.cast(); got != "t/a 1" || p.fleet().Agents["t/a"].Command[0] != "a" {
			t.Errorf("there live %s, of %v", got, p.fleet().Agents["t/a"])
		}
	})
}

// The next controller finds what the last one was given.
func TestApplyThenRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := newStage(), memory.New()
		p := raise(t, s, db, treeOf(t, "a", "b", "s(c)"))
		p.becomes(treeOf(t, "b=x", "s(c d)"))
		p.Stop(true)
		<-p.Ended()
		p = raise(t, s, db, treeOf(t, "a", "b=x", "s(c d)"))
		defer p.close()
		if got := s.cast(); got != "t/a 2, t/b 2, t/s/c 1, t/s/d 1" {
			t.Errorf("there live %s", got)
		}
	})
}

// A supervisor that is restarted starts what it was given last, and numbers go on.
func TestApplyThenEscalate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := treeOf(t, "s(a b)")
		edited(t, tree, "a", func(a *spec.Agent) { a.Limit = supervisor.Limit{} })
		tree.Root.Children[0].Node.Limit = supervisor.Escalating(0, time.Hour)
		p := newPlay(t, treeOf(t, "s(a)"))
		defer p.close()
		p.becomes(tree)
		p.stage.on("t/s/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
		time.Sleep(time.Minute)
		if got := p.stage.cast(); got != "t/s/a 2, t/s/b 2" {
			t.Errorf("there live %s", got)
		}
	})
}

// An agent that has ended for good is not started because something else has changed.
func TestApplyLeavesWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func(words ...string) *spec.Tree {
			return edited(t, treeOf(t, words...), "a", func(a *spec.Agent) { a.Restart = supervisor.Temporary })
		}
		s := newStage()
		s.plays("t/a", part{lives: time.Second, exit: supervisor.Exit{Kind: supervisor.Normal}})
		p := raise(t, s, memory.New(), tree("a", "b"))
		defer p.close()
		time.Sleep(2 * time.Second)
		for _, words := range [][]string{{"a", "b", "c"}, {"a=x", "b", "c"}, {"a", "c"}} {
			if _, err := p.apply(context.Background(), tree(words...), fleet.Config{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if n := s.starts("t/a"); n != 1 {
				t.Fatalf("with %v, a was started %d times", words, n)
			}
		}
	})
}

// A supervisor that has not run since the daemon started knows the numbers of its children also
// after a change of the file.
func TestApplyToWhatNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := newStage(), memory.New()
		p := raise(t, s, db, treeOf(t, "s(a b)"))
		if _, err := p.control.Act(context.Background(), "t/s", control.Stop); err != nil {
			t.Fatal(err)
		}
		p.close()
		p = raise(t, s, db, treeOf(t, "s(a b)"))
		defer p.close()
		for _, words := range [][]string{{"s(a b c)"}, {"s(a b=x c)"}} {
			if _, err := p.apply(context.Background(), treeOf(t, words...), fleet.Config{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.control.Act(context.Background(), "t/s", control.Start); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got, want := s.cast(), "t/s/a 2, t/s/b 2, t/s/c 1"; got != want || s.starts("t/s/a") != 2 || s.starts("t/s/b") != 2 {
			t.Errorf("there live %s, want %s, each started with that number at once: %v", got, want, s.begun)
		}
	})
}
