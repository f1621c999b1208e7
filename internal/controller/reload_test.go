package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// library is what a controller reads instead of files.
type library struct {
	mu  sync.Mutex
	now reconcile.Loaded
}

func (l *library) read() reconcile.Loaded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *library) put(x reconcile.Loaded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = x
}

// good is a valid file of a revision.
func good(t *testing.T, revision string, words ...string) reconcile.Loaded {
	return reconcile.Loaded{Tree: treeOf(t, words...), Config: fleet.Config{Revision: revision}}
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := new(library)
		p := newPlay(t, treeOf(t, "a"))
		p.opts.Load = files.read
		p.reloader = newReloader(p.Controller)
		defer p.close()
		ctx := context.Background()
		bad := reconcile.Loaded{Config: fleet.Config{Revision: "r2"}, Err: errors.New("coppice.toml:1:1: wrong\ncoppice.toml:2:1: wrong, too")}
		for i, step := range []struct {
			now           reconcile.Loaded
			answer        string // or the error
			refused, cast string
			events        int // in all, of reloads and rejections
		}{
			{good(t, "r1", "a", "b"), "revision r1, 1 added", "", "t/a 1, t/b 1", 1},
			{good(t, "r1", "a"), "revision r1, nothing has changed", "", "t/a 1, t/b 1", 1},
			{bad, "wrong, too", "coppice.toml:1:1: wrong\ncoppice.toml:2:1: wrong, too", "t/a 1, t/b 1", 2},
			{good(t, "r1", "a", "b"), "nothing has changed", "", "t/a 1, t/b 1", 2},
			{bad, "wrong, too", "coppice.toml:1:1: wrong\ncoppice.toml:2:1: wrong, too", "t/a 1, t/b 1", 3},
			{good(t, "r3", "a=x"), "revision r3, 1 removed, 1 restarted", "", "t/a 2", 4},
			{reconcile.Loaded{Tree: renamed(t, "u", "a"), Config: fleet.Config{Revision: "r4"}}, "takes a restart of the daemon", "the name of the project", "t/a 2", 5},
			{good(t, "r5", "a=x"), "revision r5, no agent differs", "", "t/a 2", 6},
		} {
			files.put(step.now)
			for again := range 2 { // what was read already does nothing, and is not told again
				_, answer, err := p.reloader.Check(ctx)
				time.Sleep(10 * time.Millisecond)
				got := answer.String()
				if err != nil {
					if got = err.Error(); !errors.Is(err, api.ErrConflict) {
						t.Errorf("step %d: %v is no conflict", i, err)
					}
				}
				if again == 0 && !strings.Contains(got, step.answer) {
					t.Errorf("step %d: got %s, want %s", i, got, step.answer)
				}
				if s, err := p.status.Status(ctx); err != nil || !strings.HasPrefix(s.Config.LastError, step.refused) || (s.Config.LastError == "") != (step.refused == "") {
					t.Errorf("step %d: the status says %q, %v, want %q", i, s.Config.LastError, err, step.refused)
				}
				if got := p.stage.cast(); got != step.cast {
					t.Errorf("step %d: there live %s, want %s", i, got, step.cast)
				}
				if all := p.happened(event.ConfigReloaded, event.ConfigRejected); len(all) != step.events {
					t.Errorf("step %d: %d events, want %d: %q", i, len(all), step.events, all)
				}
			}
		}
		if _, err := p.reloader.Reload(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Who asks is told of a fault, however often it was told before.
func TestReloadAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a"))
		defer p.close()
		if _, err := p.reloader.Reload(context.Background()); !errors.Is(err, api.ErrConflict) {
			t.Errorf("without files: got %v", err)
		}
		p.opts.Load = func() reconcile.Loaded { return reconcile.Loaded{Err: errors.New("wrong")} }
		p.reloader = newReloader(p.Controller)
		for n := range 3 {
			if _, err := p.reloader.Reload(context.Background()); err == nil || !strings.Contains(err.Error(), "wrong") {
				t.Errorf("got %v", err)
			}
			if all := p.happened(event.ConfigRejected); len(all) != n+1 {
				t.Errorf("%d events, want %d", len(all), n+1)
			}
		}
	})
}

// A reload counts the agents that it has had restarted, not those that differ in
// something that could need that.
func TestReloadCounts(t *testing.T) {
	plain := func(change func(*spec.Agent)) func(testing.TB) *spec.Tree {
		return func(t testing.TB) *spec.Tree { return edited(t, treeOf(t, "a", "b"), "a", change) }
	}
	same := func(*spec.Agent) {}
	aided := func(path string) func(testing.TB) *spec.Tree {
		return func(t testing.TB) *spec.Tree {
			return edited(t, treeWith(t, aidefile.File{}), "a", func(a *spec.Agent) { a.Aide.Path = path })
		}
	}
	for name, c := range map[string]struct {
		from, to func(testing.TB) *spec.Tree
		before   func(*play)
		want     string
	}{
		"its list of files": {
			plain(same), plain(func(a *spec.Agent) { a.Files = []string{"/f"} }), nil, "1 restarted",
		},
		"its grace": {
			plain(same), plain(func(a *spec.Agent) { a.Shutdown.Grace = time.Minute }), nil, "1 changed in place",
		},
		"the path of an Aidefile whose agent waits": {
			aided("/f"), aided("/g"), nil, "1 changed in place",
		},
		"the command of what was stopped by hand": {
			plain(same), plain(func(a *spec.Agent) { a.Command = []string{"x"} }),
			func(p *play) { p.control.Act(context.Background(), "t/a", control.Stop) }, "1 changed in place",
		},
		"the list of files of what was started too often": {
			plain(func(a *spec.Agent) { a.Limit = supervisor.Quarantining(1, time.Hour) }),
			plain(func(a *spec.Agent) {
				a.Limit, a.Files = supervisor.Quarantining(1, time.Hour), []string{"/f"}
			}), nil, "1 to be restarted later",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := new(library)
				p := newPlay(t, c.from(t))
				defer p.close()
				p.opts.Load = files.read
				p.reloader = newReloader(p.Controller)
				if c.before != nil {
					c.before(p)
				}
				files.put(reconcile.Loaded{Tree: c.to(t), Config: fleet.Config{Revision: "r"}})
				if r, err := p.reloader.Reload(context.Background()); err != nil || r.String() != "revision r, "+c.want {
					t.Errorf("got %v, %v, want %s", r, err, c.want)
				}
			})
		})
	}
}
