package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// stands is what an explanation says of the patrol, in short.
func (p *play) stands(path string) string {
	p.t.Helper()
	x, err := p.status.Explain(context.Background(), path)
	if err != nil || x.Patrol == nil {
		p.t.Errorf("%s: %v, %+v", path, err, x.Patrol)
		return ""
	}
	s := x.Patrol
	text := s.Wanted + "; " + s.Observed
	if s.Ready {
		text += " and ready"
	}
	switch {
	case len(s.Drifted) > 0:
		text += "; drifted " + strings.Join(s.Drifted, " ")
	case s.Known:
		text += "; as declared"
	}
	if len(s.WaitsFor) > 0 {
		text += "; waits for " + strings.Join(s.WaitsFor, " ")
	}
	if s.HeldUntil != nil {
		text += fmt.Sprintf("; held for %v", time.Until(*s.HeldUntil).Round(time.Minute))
	}
	if s.Action != "" {
		text += "; " + s.Action
	}
	if s.NextRound == nil || time.Until(*s.NextRound) > spec.DefaultPatrol().Interval {
		p.t.Errorf("%s: the next round is at %v", path, s.NextRound)
	}
	return text
}

func TestExplainPatrol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func(model string, suspended bool) *spec.Tree {
			agent := func(name string, change func(*spec.Agent)) spec.Decl {
				a := &spec.Agent{Name: name, Dir: "/", Command: []string{name}, Limit: supervisor.Quarantining(2, time.Hour)}
				change(a)
				return spec.Decl{Agent: a}
			}
			tree, problems := spec.Assemble(spec.Node{Name: "t"}, []spec.Decl{
				agent("a", func(a *spec.Agent) { a.Env = map[string]string{"MODEL": model} }),
				agent("b", func(a *spec.Agent) { a.DependsOn = []string{"slow"} }),
				agent("slow", func(a *spec.Agent) {}),
				agent("off", func(a *spec.Agent) { a.Suspended = suspended }),
			})
			if problems != nil {
				t.Fatal(problems)
			}
			tree.Patrol = spec.DefaultPatrol()
			return tree
		}
		s := newStage()
		s.plays("t/slow", part{takes: time.Hour})
		p := raise(t, s, memory.New(), tree("x", true))
		defer p.close()
		p.moment()
		becomes := func(model string) {
			t.Helper()
			if _, err := p.apply(context.Background(), tree(model, true), fleet.Config{}); err != nil {
				t.Fatal(err)
			}
			p.moment()
		}
		wants := func(path, want string) {
			t.Helper()
			if got := p.stands(path); got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		wants("t/a", "run; running and ready; as declared")
		wants("t/b", "run; down; waits for t/slow")
		wants("t/slow", "run; kept")
		wants("t/off", "suspend; down")
		becomes("y")
		wants("t/a", "run; running and ready; as declared")
		becomes("z") // which no limit holds
		wants("t/a", "run; running and ready; as declared")
		for range 2 {
			s.on("t/a").end(part{}.ending())
			p.moment()
		}
		wants("t/a", "run; kept; held for 1h0m0s")
		if _, err := p.control.Act(context.Background(), "t/a", control.Stop); err != nil {
			t.Fatal(err)
		}
		p.moment()
		wants("t/a", "run; done")
		if x, err := p.status.Explain(context.Background(), "t"); err != nil || x.Patrol != nil {
			t.Errorf("the root: %v, %+v", err, x.Patrol)
		}
	})
}

// Of a pool the explanation has what its check has said, of one that is retired
// that it ends.
func TestExplainRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{n: 2}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 2, Check: []string{"q"}}), q)
		defer p.close()
		p.moment()
		if got := p.stands("t/w"); got != "run; running and ready" {
			t.Errorf("the pool: %q", got)
		}
		p.says(q, 1, nil)
		if got := p.stands("t/w/w-2"); got != "finish; running and ready; as declared" {
			t.Errorf("what the pool does not want: %q", got)
		}
		if _, err := p.apply(context.Background(), treeOf(t, "other"), fleet.Config{}); err != nil {
			t.Fatal(err)
		}
		p.moment()
		for path, want := range map[string]string{"t/w": "finish; running and ready", "t/w/w-1": "finish; running and ready; as declared"} {
			if got := p.stands(path); got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		if x, err := p.status.Explain(context.Background(), "t/w"); err != nil || !strings.Contains(x.Rule, "no longer in the file") || !x.Node.Pool.Retired || !strings.Contains(x.Hint, "coppice stop t/w") {
			t.Errorf("%v: %+v", err, x)
		}
	})
}
