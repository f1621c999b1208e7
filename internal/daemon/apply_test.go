package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// becomes applies a tree and waits until nothing moves any more.
func (p *play) becomes(tree *spec.Tree) spec.Changes {
	p.t.Helper()
	changes, err := p.apply(context.Background(), tree, ConfigInfo{Revision: "next"})
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
				nodes, err := p.Nodes(context.Background(), "")
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
		if got := p.stage.cast(); got != "t/a 1, t/b 1" || len(c.Amended) != 1 || len(c.Renewed) != 0 {
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
			tree := treeOf(t, "a="+command, "b="+command, "c")
			return edited(t, tree, "b", func(b *spec.Agent) { b.Limit = supervisor.Quarantining(2, time.Hour) })
		}
		p := newPlay(t, tree("x"))
		defer p.close()
		if err := p.Act(context.Background(), "a", api.Stop); err != nil {
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
		if a := p.stage.on("t/b"); a.launch.Argv[0] != "z" {
			t.Errorf("it runs %v", a.launch.Argv)
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
			if _, err := p.apply(context.Background(), tt.tree, ConfigInfo{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		}
		if got := p.stage.cast(); got != "t/a 1" || p.fleet().agents["t/a"].Command[0] != "a" {
			t.Errorf("there live %s, of %v", got, p.fleet().agents["t/a"])
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
