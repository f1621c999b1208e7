package controller

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// A restart of all that runs is not the end of a run, although nothing runs for a moment.
// The run ends once everything is stopped.
func TestRunOutlivesRestart(t *testing.T) {
	for _, policy := range []supervisor.Restart{supervisor.Permanent, supervisor.Transient, supervisor.Temporary} {
		for name, c := range map[string]struct {
			tree             []string
			stopped, restart string // by hand
			left             string
		}{
			"the only one":             {[]string{"a"}, "", "a", "t/a 2"},
			"the last one":             {[]string{"a", "b"}, "a", "b", "t/b 2"},
			"the first one":            {[]string{"a", "b"}, "b", "a", "t/a 2"},
			"in a supervisor":          {[]string{"a", "s(b)"}, "a", "s/b", "t/s/b 2"},
			"a supervisor":             {[]string{"a", "s(b)"}, "a", "s", "t/s/b 2"},
			"everything":               {[]string{"a", "s(b)"}, "", "t", "t/a 2, t/s/b 2"},
			"in a group":               {[]string{"a", "s:one_for_all(b c)"}, "a", "s", "t/s/b 2, t/s/c 2"},
			"in a supervisor that may": {[]string{"s:when_done(b)"}, "", "s/b", "t/s/b 2"},
		} {
			t.Run(policy.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					words, whenDone := c.tree, c.tree[0] == "s:when_done(b)"
					if whenDone {
						words = []string{"s(b)"}
					}
					tree := treeOf(t, words...)
					if whenDone {
						tree.Root.Children[0].Node.AutoShutdown = supervisor.WhenDone
					}
					for _, child := range tree.All() {
						if child.Agent != nil {
							edited(t, tree, child.Agent.Name, func(a *spec.Agent) { a.Restart = policy })
						}
					}
					s := newStage()
					for _, path := range []string{"t/a", "t/s/b", "t/s/c"} {
						s.plays(path, part{takes: time.Second, stops: time.Second})
					}
					ctx := context.Background()
					p, err := Open(ctx, Options{Tree: tree, Store: memory.New(), Runtimes: []runtime.Runtime{s}, Logger: slog.New(slog.DiscardHandler), Once: true})
					if err != nil {
						t.Fatal(err)
					}
					if err := p.Started(ctx); err != nil {
						t.Fatal(err)
					}
					if c.stopped != "" {
						if _, err := p.control.Act(ctx, c.stopped, control.Stop); err != nil {
							t.Fatal(err)
						}
					}
					if _, err := p.control.Act(ctx, c.restart, control.Restart); err != nil {
						t.Errorf("restart: %v", err)
					}
					if got := s.cast(); got != c.left {
						t.Errorf("there live %q, want %q", got, c.left)
					}
					if _, err := p.control.Act(ctx, "t", control.Stop); err != nil {
						t.Errorf("stop: %v", err)
					}
					<-p.Ended()
				})
			})
		}
	}
}
