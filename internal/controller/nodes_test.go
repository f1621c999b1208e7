package controller

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// The limit of a node means the same in every row: how much of what governs it is used up.
// A start with the group of another agent that has failed does not count.
func TestNodeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/flaky", part{lives: time.Second})
		s.plays("t/g/a", part{lives: time.Second})
		s.plays("t/shared/x", part{lives: time.Second})
		tree := treeOf(t, "web", "flaky", "once", "free", "g:one_for_all(a b)", "shared(x y)")
		own := supervisor.Quarantining(20, time.Hour)
		tree.Root.Limit = own
		for _, name := range []string{"web", "flaky", "once", "a", "b"} {
			edited(t, tree, name, func(a *spec.Agent) { a.Limit = own })
		}
		edited(t, tree, "a", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, time.Hour) })
		edited(t, tree, "once", func(a *spec.Agent) { a.Restart = supervisor.Temporary })
		edited(t, tree, "flaky", func(a *spec.Agent) { a.Limit = supervisor.GivingUp(3) })
		for _, name := range []string{"x", "y"} {
			edited(t, tree, name, func(a *spec.Agent) { a.Limit = supervisor.Limit{} })
		}
		for _, c := range tree.Root.Children {
			switch c.Name() {
			case "free":
				c.Agent.Limit.Scope = supervisor.ScopeChild // as in a file
			case "g":
				c.Node.Limit = own
			case "shared":
				c.Node.Limit = supervisor.Limit{Max: 2, Within: 10 * time.Minute, OnLimit: supervisor.Pause}
			}
		}
		p := raise(t, s, memory.New(), tree)
		defer p.close()
		time.Sleep(10 * time.Second)
		if _, err := p.control.Act(context.Background(), "t/web", control.Restart); err != nil {
			t.Fatal(err)
		}
		p.moment()
		nodes, err := p.status.Nodes(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"t": "-", "t/web": "1/20 starts in 1h", "t/flaky": "3/3 restarts in a row", "t/once": "-", "t/free": "no limit",
			"t/g": "1/20 starts in 1h", "t/g/a": "2/2 starts in 1h", "t/g/b": "1/20 starts in 1h",
			"t/shared": "2/2 restarts in 10m", "t/shared/x": "shared", "t/shared/y": "shared",
		}
		for _, n := range nodes {
			if got := n.Starts(); got != want[n.Path] {
				t.Errorf("%s (%s, incarnation %d, %d restarts): got %q, want %q", n.Path, n.State, n.Incarnation, n.Restarts, got, want[n.Path])
			}
			policy := map[string]string{"t": "", "t/once": "never"}
			if want, special := policy[n.Path]; special && n.Restart != want || !special && n.Restart != "always" {
				t.Errorf("%s: restart policy %q", n.Path, n.Restart)
			}
			if shared := strings.HasPrefix(n.Path, "t/shared/"); shared != (n.LimitOf == "t/shared") {
				t.Errorf("%s: its limit is of %q", n.Path, n.LimitOf)
			}
		}
	})
}
