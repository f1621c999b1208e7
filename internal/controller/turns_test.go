package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// supervisorOf is a supervisor of a tree, by name.
func supervisorOf(t testing.TB, tree *spec.Tree, name string) *spec.Node {
	t.Helper()
	for _, child := range tree.All() {
		if child.Node != nil && child.Node.Name == name {
			return child.Node
		}
	}
	t.Fatalf("no supervisor %s", name)
	return nil
}

var (
	errBoom = errors.New("boom")
	slow    = part{takes: time.Second}
)

// retried has an agent tried again every minute.
func retried(t testing.TB, tree *spec.Tree, name string) {
	edited(t, tree, name, func(a *spec.Agent) {
		a.Backoff = supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Minute, Cap: time.Hour}
	})
}

// What children of a group depend on holds them up in their turn, and with them
// only what comes after them.
func TestDependenciesInGroups(t *testing.T) {
	for _, strategy := range []string{"one_for_all", "rest_for_one"} {
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := treeOf(t, "db", "s:"+strategy+"(a b c)", "other")
				needs(t, tree, "b", "db")
				retried(t, tree, "db")
				s := newStage()
				s.parts["t/db"] = part{start: errBoom}
				p := raise(t, s, memory.New(), tree)
				defer p.close()
				if err := p.Started(context.Background()); err != nil {
					t.Fatal(err)
				}
				if got, want := s.cast(), "t/other 1, t/s/a 1"; got != want {
					t.Errorf("without the database there live %s, want %s", got, want)
				}
				nodes, err := p.status.Nodes(context.Background(), "s/b")
				if err != nil || nodes[0].State != "waiting" || nodes[0].Reason != "waits for t/db" {
					t.Errorf("b is %+v, %v", nodes, err)
				}
				if nodes, err = p.status.Nodes(context.Background(), "s/c"); err != nil || nodes[0].State != "waiting" || nodes[0].Reason != "waits for t/s/b" {
					t.Errorf("c is %+v, %v", nodes, err)
				}
				if _, err := p.control.Act(context.Background(), "s/b", control.Start); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "t/s/b waits for t/db and starts on its own then") {
					t.Errorf("start: %v", err)
				}
				s.plays("t/db", slow)
				time.Sleep(2 * time.Minute)
				if got, want := s.cast(), "t/db 2, t/other 1, t/s/a 1, t/s/b 1, t/s/c 1"; got != want {
					t.Errorf("with the database there live %s, want %s", got, want)
				}
				// A restart of the group waits again, but not for what has failed itself.
				s.plays("t/db", part{start: errBoom})
				s.on("t/db").end(supervisor.Exit{Kind: supervisor.Failure, Err: errBoom})
				time.Sleep(time.Second)
				s.on("t/s/b").end(supervisor.Exit{Kind: supervisor.Failure, Err: errBoom})
				time.Sleep(time.Second)
				a, c := "t/s/a 1", "t/s/c 2"
				if strategy == "one_for_all" {
					a = "t/s/a 2"
				}
				if got, want := s.cast(), "t/other 1, "+a+", t/s/b 2, "+c; got != want {
					t.Errorf("after a failure of b there live %s, want %s", got, want)
				}
				s.on("t/s/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errBoom})
				time.Sleep(time.Second)
				if s.on("t/s/a") == nil || s.on("t/s/b") != nil || s.on("t/s/c") != nil {
					t.Errorf("after a failure of a there live %s", s.cast())
				}
				s.plays("t/db", part{})
				time.Sleep(2 * time.Minute)
				if s.on("t/s/b") == nil || s.on("t/s/c") == nil {
					t.Errorf("with the database again there live %s", s.cast())
				}
			})
		})
	}
}

// A member of a group that is still starting when the group restarts is started again.
func TestGroupRestartsDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.parts["t/s/b"] = part{takes: time.Minute}
		p := raise(t, s, memory.New(), needs(t, treeOf(t, "db", "s:rest_for_one(a b)"), "b", "db"))
		defer p.close()
		time.Sleep(time.Second)
		s.on("t/s/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errBoom})
		time.Sleep(2 * time.Minute)
		if got, want := s.cast(), "t/db 1, t/s/a 2, t/s/b 2"; got != want {
			t.Errorf("there live %s, want %s", got, want)
		}
	})
}

// What is outside of a group may wait for one of its children, and another one for that.
func TestDependenciesThroughGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := treeOf(t, "s:rest_for_one(a b)", "between")
		needs(t, tree, "b", "between")
		needs(t, tree, "between", "a")
		s := newStage()
		s.parts["t/s/a"], s.parts["t/between"] = slow, slow
		p := raise(t, s, memory.New(), tree)
		defer p.close()
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"t/s/a 1", "t/between 1", "t/s/b 1"}; !slices.Equal(s.begun, want) {
			t.Errorf("started %q, want %q", s.begun, want)
		}
	})
}

// nested is a tree s > g with the strategies, where the last agent of g depends on
// one that comes later in s.
func nested(t *testing.T, outer, inner string) *spec.Tree {
	t.Helper()
	st := func(name string) supervisor.Strategy {
		s, err := supervisor.ParseStrategy(name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	agent := func(name string, on ...string) spec.Decl {
		return spec.Decl{Agent: &spec.Agent{Name: name, Dir: "/", Command: []string{name}, DependsOn: on, Limit: supervisor.Limit{Max: supervisor.Unlimited}}}
	}
	tree, problems := spec.Assemble(spec.Node{Name: "t"}, []spec.Decl{
		{Node: &spec.Node{Name: "s", Strategy: st(outer)}, Children: []string{"g", "db", "z"}},
		{Node: &spec.Node{Name: "g", Strategy: st(inner)}, Children: []string{"x", "y"}},
		agent("x"), agent("y", "db"), agent("db"), agent("z"),
	})
	if problems != nil {
		t.Fatal(problems)
	}
	return tree
}

// A group in a supervisor that gives no order holds up nothing but itself.
func TestNestedGroupWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.parts["t/s/db"] = slow
		p := raise(t, s, memory.New(), nested(t, "one_for_one", "rest_for_one"))
		defer p.close()
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		if i, j := slices.Index(s.begun, "t/s/db 1"), slices.Index(s.begun, "t/s/g/y 1"); j < i || i < 0 || len(s.begun) != 4 {
			t.Errorf("started %q", s.begun)
		}
	})
}

// What comes after a supervisor in a group waits until all in that is ready, also
// what the patrol starts there; but not for what is not to run.
func TestGroupAfterSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := func() *spec.Tree {
			agent := func(name string, on ...string) spec.Decl {
				return spec.Decl{Agent: &spec.Agent{Name: name, Dir: "/", Command: []string{name}, DependsOn: on, Limit: supervisor.Limit{Max: supervisor.Unlimited}}}
			}
			tree, problems := spec.Assemble(spec.Node{Name: "t", Strategy: supervisor.RestForOne}, []spec.Decl{
				{Node: &spec.Node{Name: "g"}, Children: []string{"x", "y", "off"}},
				agent("x", "y"), agent("y"), agent("off"), agent("z"), agent("zz"),
			})
			if problems != nil {
				t.Fatal(problems)
			}
			return tree
		}
		s, db := newStage(), memory.New()
		s.parts["t/g/y"], s.parts["t/g/x"], s.parts["t/z"] = slow, slow, slow
		p := raise(t, s, db, build())
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.begun = slices.DeleteFunc(s.begun, func(b string) bool { return b == "t/g/off 1" }) // at the time of x
		if want := []string{"t/g/y 1", "t/g/x 1", "t/z 1", "t/zz 1"}; !slices.Equal(s.begun, want) {
			t.Errorf("started %q, want %q", s.begun, want)
		}
		if _, err := p.control.Act(context.Background(), "g/off", control.Stop); err != nil {
			t.Fatal(err)
		}
		p.close()
		s.begun = nil
		p = raise(t, s, db, build())
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"t/g/y 2", "t/g/x 2", "t/z 2", "t/zz 2"}; !slices.Equal(s.begun, want) {
			t.Errorf("without what was stopped by hand, started %q, want %q", s.begun, want)
		}
		// The same when everything is suspended and resumed.
		for _, action := range []control.Action{control.Suspend, control.Resume} {
			s.begun = nil
			if _, err := p.control.Act(context.Background(), "", action); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"t/g/y 3", "t/g/x 3", "t/z 3", "t/zz 3"}; !slices.Equal(s.begun, want) {
			t.Errorf("resumed, started %q, want %q", s.begun, want)
		}
		p.close()
	})
}

// Who waits for what was stopped by hand waits; who comes after it only does not.
func TestDependentsOfSuspended(t *testing.T) {
	for _, strategy := range []string{"one_for_one", "one_for_all", "rest_for_one"} {
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := func() *spec.Tree { return needs(t, treeOf(t, "s:"+strategy+"(a b c)"), "c", "a") }
				s, db := newStage(), memory.New()
				p := raise(t, s, db, tree())
				if _, err := p.control.Act(context.Background(), "s/a", control.Suspend); err != nil {
					t.Fatal(err)
				}
				if got, want := s.cast(), "t/s/b 1, t/s/c 1"; got != want {
					t.Errorf("what has been started goes on: %s, want %s", got, want)
				}
				p.close()
				p = raise(t, s, db, tree())
				defer p.close()
				if got, want := s.cast(), "t/s/b 2"; got != want {
					t.Errorf("without a there live %s, want %s", got, want)
				}
				x, err := p.status.Explain(context.Background(), "s/c")
				if err != nil || x.Rule != "it waits for t/s/a" || !slices.ContainsFunc(x.Evidence, func(e string) bool { return strings.HasPrefix(e, "t/s/a is suspended: suspended until it is resumed") }) {
					t.Errorf("%+v, %v", x, err)
				}
				if _, err := p.control.Act(context.Background(), "s/a", control.Resume); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if got, want := s.cast(), "t/s/a 2, t/s/b 2, t/s/c 2"; got != want {
					t.Errorf("with a there live %s, want %s", got, want)
				}
			})
		})
	}
}

// A reload changes what something waits for, and touches nothing that runs.
func TestReloadOfDependencies(t *testing.T) {
	for _, strategy := range []string{"one_for_one", "one_for_all", "rest_for_one"} {
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := func() *spec.Tree {
					tree := treeOf(t, "never", "s:"+strategy+"(a b c)")
					edited(t, tree, "never", func(a *spec.Agent) { a.Suspended = true })
					return tree
				}
				s := newStage()
				p := raise(t, s, memory.New(), needs(t, tree(), "b", "never"))
				defer p.close()
				time.Sleep(time.Second)
				if s.on("t/s/b") != nil {
					t.Fatalf("there live %s", s.cast())
				}
				if _, err := p.apply(context.Background(), tree(), fleet.Config{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				const all = "t/s/a 1, t/s/b 1, t/s/c 1"
				if got := s.cast(); got != all {
					t.Errorf("without the dependency there live %s, want %s", got, all)
				}
				if _, err := p.apply(context.Background(), needs(t, tree(), "b", "never"), fleet.Config{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if got := s.cast(); got != all {
					t.Errorf("with the dependency again there live %s, want %s", got, all)
				}
				// What is new is started in the order of the group.
				more := treeOf(t, "never", "s:"+strategy+"(a b c d e)")
				edited(t, more, "never", func(a *spec.Agent) { a.Suspended = true })
				s.plays("t/s/d", slow)
				if _, err := p.apply(context.Background(), more, fleet.Config{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(500 * time.Millisecond)
				if early := s.on("t/s/e") != nil; early != (strategy == "one_for_one") {
					t.Errorf("while d is started there live %s", s.cast())
				}
				time.Sleep(time.Second)
				if got, want := s.cast(), all+", t/s/d 1, t/s/e 1"; got != want {
					t.Errorf("in the end there live %s, want %s", got, want)
				}
			})
		})
	}
}

// A new controller takes over what lives in a group, also where that waits.
func TestGroupsAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func() *spec.Tree {
			tree := needs(t, treeOf(t, "db", "s:rest_for_one(a b c)"), "b", "db")
			return edited(t, tree, "db", func(a *spec.Agent) {
				a.Backoff = supervisor.Backoff{Kind: supervisor.Fixed, Base: 10 * time.Millisecond}
			})
		}
		s, db := newStage(), memory.New()
		p := raise(t, s, db, tree())
		time.Sleep(time.Second)
		p.Stop(true)
		<-p.Ended()
		s.on("t/db").end(supervisor.Exit{Kind: supervisor.Failure, Err: errBoom})
		s.plays("t/db", part{start: errBoom})
		p = raise(t, s, db, tree())
		defer p.close()
		time.Sleep(time.Second)
		if got, want := s.cast(), "t/s/a 1, t/s/b 1, t/s/c 1"; got != want {
			t.Errorf("there live %s, want %s", got, want)
		}
		for _, path := range []string{"t/s/a", "t/s/b", "t/s/c"} {
			if got := p.state(path); got != supervisor.Running {
				t.Errorf("%s is %v", path, got)
			}
		}
	})
}

// endings notes which agents end, in which order.
func endings(s *stage, paths ...string) func() []string {
	var mu sync.Mutex
	var all []string
	for _, path := range paths {
		a := s.on(path)
		go func() {
			<-a.done
			mu.Lock()
			defer mu.Unlock()
			all = append(all, path+" "+a.exit.Kind.String())
		}()
	}
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// What is taken out of the file is stopped as a fleet is: what depends on others
// before them, in bounded time, and who does not stop is named.
func TestRemovedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := treeOf(t, "web", "s(api db stubborn)", "q:rest_for_one(x y keep)", "stays")
		needs(t, tree, "web", "api")
		needs(t, tree, "api", "db")
		edited(t, tree, "db", func(a *spec.Agent) { a.Shutdown.Grace = 7 * time.Second })
		s := newStage()
		for _, path := range []string{"t/web", "t/s/api", "t/s/db", "t/q/x", "t/q/y"} {
			s.parts[path] = part{stops: 3 * time.Second}
		}
		s.parts["t/web"] = part{stops: 2 * time.Second}
		s.parts["t/s/db"] = part{stops: 6 * time.Second} // within its own grace, not within what others have
		s.parts["t/s/stubborn"] = part{stops: time.Hour}
		p := raise(t, s, memory.New(), tree)
		defer p.close()
		time.Sleep(time.Second)
		ended := endings(s, "t/web", "t/s/api", "t/s/db", "t/s/stubborn", "t/q/x", "t/q/y")
		begun := time.Now()
		if _, err := p.apply(context.Background(), treeOf(t, "q:rest_for_one(keep)", "stays"), fleet.Config{}); err != nil {
			t.Fatal(err)
		}
		if err := p.loop.AwaitIdle(context.Background()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 3*time.Second+2*7*time.Second+2*time.Second {
			t.Errorf("it took %v", took)
		}
		if got, want := strings.Join(ended(), ", "), "t/web shutdown, t/q/y shutdown, t/s/api shutdown, t/q/x shutdown, t/s/stubborn killed, t/s/db shutdown"; got != want {
			t.Errorf("they ended %s, want %s", got, want)
		}
		if got := p.happened(event.AgentOverdue); len(got) != 1 || !strings.Contains(got[0], "t/s/stubborn") {
			t.Errorf("overdue: %q", got)
		}
		if got, want := s.cast(), "t/q/keep 1, t/stays 1"; got != want {
			t.Errorf("there live %s, want %s", got, want)
		}
		if n := p.removals.Len(); n > 0 {
			t.Errorf("%d paths are still remembered", n)
		}
	})
}

// A supervisor that the file suspends is stopped in the same way, and so is a project.
func TestSuspendedInOrder(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tree := func() *spec.Tree {
				return needs(t, needs(t, treeOf(t, "s(db api)", "web", "other"), "api", "db"), "web", "s")
			}
			s := newStage()
			s.parts["t/s/api"], s.parts["t/web"], s.parts["t/s/db"] = part{stops: 3 * time.Second}, part{stops: 3 * time.Second}, part{stops: time.Second}
			p := raise(t, s, memory.New(), tree())
			defer p.close()
			time.Sleep(time.Second)
			ended := endings(s, "t/s/db", "t/s/api", "t/web", "t/other")
			next := tree()
			if whole {
				next.Root.Suspended = true
			} else {
				supervisorOf(t, next, "s").Suspended = true
			}
			if _, err := p.apply(context.Background(), next, fleet.Config{}); err != nil {
				t.Fatal(err)
			}
			if err := p.loop.AwaitIdle(context.Background()); err != nil {
				t.Fatal(err)
			}
			want := "t/s/api shutdown, t/s/db shutdown"
			if whole {
				want = "t/other shutdown, t/web shutdown, " + want
			}
			if got := strings.Join(ended(), ", "); got != want {
				t.Errorf("they ended %s, want %s", got, want)
			}
		})
	}
}

// Nor does a stop by hand: what the state says is stopped does not run.
func TestStopLeavesNobody(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		action     control.Action
		mute       bool // a is not ready
		left       string
	}{
		{"an agent", "t/a", control.Stop, false, "t/b 1, t/s/x 1, t/s/y 1"},
		{"an agent that is not ready", "t/a", control.Stop, true, "t/b 1, t/s/x 1, t/s/y 1"},
		{"a supervisor", "t/s", control.Stop, false, "t/a 1, t/b 1"},
		{"everything", "t", control.Stop, false, ""},
		{"everything, for a time", "t", control.Suspend, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := func() *spec.Tree { return treeOf(t, "a", "b", "s(x y)") }
				s, db := newStage(), memory.New()
				p := raise(t, s, db, tree())
				time.Sleep(time.Second)
				p.dies()
				s.on("t/a").mute.Store(tt.mute)
				c := mustOpen(t, s, db, tree())
				if _, err := c.control.Act(context.Background(), tt.path, tt.action); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Second)
				if left := s.cast(); left != tt.left {
					t.Errorf("there live %q, want %q", left, tt.left)
				}
				nodes, err := c.status.Nodes(context.Background(), "")
				if err != nil {
					t.Error(err)
				}
				for _, n := range nodes {
					if n.Path == tt.path && n.Kind == "agent" && (n.State != "stopped" || n.Incarnation != 1) {
						t.Errorf("%s: %s, incarnation %d", n.Path, n.State, n.Incarnation)
					}
				}
				c.Stop(false)
				<-c.Ended()
			})
		})
	}
}

// An end leaves no process behind, also of those that a new controller has found
// running and not taken over yet.
func TestDownLeavesNobody(t *testing.T) {
	for _, tt := range []struct {
		name string
		mute bool // a is not ready
		wait time.Duration
	}{
		{"at once", false, 0},
		{"in a group that waits", false, 2 * time.Second},
		{"while one is asked whether it is ready", true, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := func() *spec.Tree {
					tree := treeOf(t, "a", "b", "s:rest_for_one(x y z)")
					retried(t, tree, "x")
					return tree
				}
				s, db := newStage(), memory.New()
				p := raise(t, s, db, tree())
				time.Sleep(time.Second)
				p.Stop(true)
				<-p.Ended()
				s.on("t/s/x").end(supervisor.Exit{Kind: supervisor.Failure, Err: errBoom})
				s.plays("t/s/x", part{start: errBoom})
				s.on("t/a").mute.Store(tt.mute)
				c := mustOpen(t, s, db, tree())
				time.Sleep(tt.wait)
				begun := time.Now()
				c.Stop(false)
				<-c.Ended()
				if left := s.cast(); left != "" {
					t.Errorf("there still live %s", left)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
