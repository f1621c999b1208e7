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
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// names are n names of agents.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("a%03d", i))
	}
	return all
}

// needs has an agent depend on others.
func needs(t testing.TB, tree *spec.Tree, name string, on ...string) *spec.Tree {
	return edited(t, tree, name, func(a *spec.Agent) { a.DependsOn = on })
}

// Independent agents start beside each other, as many as may at a time.
func TestStartsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		for _, name := range names(100) {
			s.parts["t/"+name] = part{takes: time.Second}
		}
		begun := time.Now()
		p := raise(t, s, memory.New(), treeOf(t, names(100)...))
		defer p.close()
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 13*time.Second || took > 14*time.Second {
			t.Errorf("100 agents that take 1s each took %v, want 13s with %d at a time", took, p.fleet().Patrol.Starts)
		}
	})
}

// Within a supervisor the order of the file holds.
func TestStartsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		for _, path := range []string{"t/s/c", "t/s/b", "t/s/a"} {
			s.parts[path] = part{takes: time.Second}
		}
		p := raise(t, s, memory.New(), treeOf(t, "s(c b a)"))
		defer p.close()
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.begun, ", "); got != "t/s/c 1, t/s/b 1, t/s/a 1" {
			t.Errorf("started %s", got)
		}
	})
}

// What something depends on is ready first; what fails holds up only what depends on it.
func TestDependencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := treeOf(t, "web", "api", "db", "cache", "broken", "late", "s(x y)")
		needs(t, tree, "web", "api", "cache")
		needs(t, tree, "api", "db")
		needs(t, tree, "late", "broken")
		needs(t, tree, "y", "db")
		tree.Root.Children[6].Node.DependsOn = []string{"api"}
		edited(t, tree, "broken", func(a *spec.Agent) {
			a.Backoff = supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Minute, Cap: time.Hour}
		})
		s := newStage()
		for _, name := range []string{"web", "api", "db", "cache"} {
			s.parts["t/"+name] = part{takes: time.Second}
		}
		s.parts["t/broken"] = part{start: errors.New("boom")}
		p := raise(t, s, memory.New(), tree)
		defer p.close()
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got, want := s.cast(), "t/api 1, t/cache 1, t/db 1, t/s/x 1, t/s/y 1, t/web 1"; got != want {
			t.Errorf("there live %s, want %s", got, want)
		}
		at := func(path string) int { return slices.Index(s.begun, path+" 1") }
		for _, order := range [][2]string{{"t/db", "t/api"}, {"t/api", "t/web"}, {"t/cache", "t/web"}, {"t/api", "t/s/x"}, {"t/db", "t/s/y"}} {
			if at(order[0]) > at(order[1]) {
				t.Errorf("%s was started after %s: %v", order[0], order[1], s.begun)
			}
		}
		nodes, err := p.status.Nodes(context.Background(), "late")
		if err != nil || nodes[0].State != "waiting" || nodes[0].Reason != "waits for t/broken" {
			t.Errorf("late is %+v, %v", nodes, err)
		}
		s.plays("t/broken", part{})
		time.Sleep(2 * time.Minute)
		if s.on("t/broken") == nil || s.on("t/late") == nil {
			t.Errorf("once it can be started there live %s", s.cast())
		}
	})
}

// An agent that has ended for good is not started by reconciliation, and a job that has
// done what it is for is what others wait for.
func TestPatrolLeavesWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := treeOf(t, "once", "job", "stopped", "after", "never")
		edited(t, tree, "once", func(a *spec.Agent) { a.Restart = supervisor.Temporary })
		edited(t, tree, "job", func(a *spec.Agent) { a.Restart = supervisor.Transient })
		needs(t, tree, "after", "job", "once")
		needs(t, tree, "never", "stopped")
		s := newStage()
		done := part{lives: time.Millisecond, exit: supervisor.Exit{Kind: supervisor.Normal}}
		s.parts["t/once"], s.parts["t/job"] = done, done
		s.parts["t/stopped"] = part{takes: time.Minute}
		p := raise(t, s, memory.New(), tree)
		defer p.close()
		if _, err := p.control.Act(context.Background(), "stopped", control.Stop); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := p.patrol.Patrol(context.Background(), false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		for path, want := range map[string]int{"t/once": 1, "t/job": 1, "t/stopped": 1, "t/after": 1, "t/never": 0} {
			if got := s.starts(path); got != want {
				t.Errorf("%s was started %d times, want %d", path, got, want)
			}
		}
	})
}

// A fleet at rest has nothing done to it, round after round, and a plan is only that.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a", "b", "s(c d)"))
		defer p.close()
		before := len(p.happened())
		for range 100 {
			r, err := p.patrol.Patrol(context.Background(), false)
			if err != nil || len(r.Actions)+len(r.Delays) > 0 {
				t.Fatalf("there is %v to do, %v", r, err)
			}
			time.Sleep(time.Minute)
		}
		if after := p.happened(); len(after) != before {
			t.Errorf("it happened: %q", after[before:])
		}
	})
}

// What has drifted is named, and renewed; who looks for drains is asked first.
func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func(model string) *spec.Tree {
			tree := treeOf(t, "plain", "asks", "slow")
			for _, name := range []string{"plain", "asks", "slow"} {
				edited(t, tree, name, func(a *spec.Agent) { a.Env = map[string]string{"MODEL": model} })
			}
			return tree
		}
		p := newPlay(t, tree("opus"))
		defer p.close()
		asks, slow := token.Caller{Path: "t/asks", Incarnation: 1}, token.Caller{Path: "t/slow", Incarnation: 1}
		for _, who := range []token.Caller{asks, slow} {
			if d := p.drains.Draining(who); d != nil {
				t.Fatal(d)
			}
		}
		p.becomes(tree("haiku"))
		if got := p.stage.cast(); got != "t/asks 1, t/plain 2, t/slow 1" {
			t.Errorf("there live %s", got)
		}
		if d := p.drains.Draining(asks); d == nil || d.Reason != "drifted: env.MODEL" {
			t.Fatalf("it is asked %+v", d)
		}
		time.Sleep(time.Minute)
		if err := p.drains.AckDrain(asks); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := p.stage.cast(); got != "t/asks 2, t/plain 2, t/slow 1" {
			t.Errorf("when one has finished there live %s", got)
		}
		time.Sleep(time.Minute)
		if got := p.stage.cast(); got != "t/asks 2, t/plain 2, t/slow 2" {
			t.Errorf("after two minutes there live %s", got)
		}
		for _, message := range p.happened(event.AgentDrifted) {
			if !strings.HasSuffix(message, "drifted: env.MODEL") {
				t.Errorf("it says %s", message)
			}
		}
		time.Sleep(time.Hour)
		if got := p.stage.cast(); got != "t/asks 2, t/plain 2, t/slow 2" {
			t.Errorf("and then %s", got)
		}
	})
}

// A daemon that finds an agent of its predecessor knows whether that has
// drifted since, and how.
func TestDriftOverDaemons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := newStage(), memory.New()
		p := raise(t, s, db, treeOf(t, "a", "b", "c"))
		p.Stop(true)
		<-p.Ended()
		p = raise(t, s, db, treeOf(t, "a", "b=x", "c"))
		if got := s.cast(); got != "t/a 1, t/b 2, t/c 1" {
			t.Errorf("there live %s", got)
		}
		if all := p.happened(event.AgentDrifted); len(all) != 1 || !strings.HasSuffix(all[0], "drifted: command") {
			t.Errorf("it says %q", all)
		}
		p.Stop(true)
		<-p.Ended()
		p = raise(t, s, memory.New(), treeOf(t, "a", "b=x", "c=y")) // whose state is lost
		defer p.close()
		if got := s.cast(); got != "t/a 1, t/b 2, t/c 2" {
			t.Errorf("without a state there live %s", got)
		}
		if all := p.happened(event.AgentDrifted); len(all) != 1 || !strings.HasSuffix(all[0], "drifted: declaration") {
			t.Errorf("it says %q", all)
		}
	})
}

// An incarnation that has ended is not restarted for its drift before its supervisor knows of
// the end: the supervisor would record a stop instead of a crash, which counts for the limit.
func TestEndedIsNotReplaced(t *testing.T) {
	boom := supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")}
	for _, kind := range []reconcile.Kind{reconcile.Renew, reconcile.Drain} {
		for session, want := range map[string]struct {
			ended    bool
			earlier  uint64 // how many incarnations before the one that runs
			replaced bool
		}{
			"runs":                         {replaced: true},
			"has ended":                    {ended: true},
			"has ended, as an earlier one": {ended: true, earlier: 1, replaced: true},
		} {
			t.Run(fmt.Sprint(kind, " ", session), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPlay(t, treeOf(t, "a"))
					defer p.close()
					p.stage.on("t/a").end(boom)
					time.Sleep(time.Minute) // incarnation 2 runs
					running := p.stage.on("t/a")
					if want.ended {
						last := &actor{launch: running.launch, done: make(chan struct{})}
						last.launch.Incarnation -= want.earlier
						last.end(boom)
						running.seen.Store(last)
					}
					p.applier.Replace(context.Background(), reconcile.Action{
						Kind: kind, Path: "t/a", Incarnation: running.launch.Incarnation, Within: time.Second, Reason: "drifted: command",
					})
					time.Sleep(time.Minute)
					if drifted := len(p.happened(event.AgentDrifted)) == 1; drifted != want.replaced || running.over() != want.replaced {
						t.Errorf("replaced: %v, ended: %v; want %v", drifted, running.over(), want.replaced)
					}
				})
			})
		}
	}
}

// What the file suspends is stopped, and runs again when it no longer does.
func TestSuspendedByFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func(suspended ...string) *spec.Tree {
			tree := treeOf(t, "a", "b", "s(c d)", "g:one_for_all(e f)")
			for _, name := range suspended {
				if name == "s" {
					tree.Root.Children[2].Node.Suspended = true
				} else if name == "t" {
					tree.Root.Suspended = true
				} else {
					edited(t, tree, name, func(a *spec.Agent) { a.Suspended = true })
				}
			}
			return tree
		}
		p := newPlay(t, tree("b", "e"))
		defer p.close()
		for _, step := range []struct {
			suspended []string
			want      string
		}{
			{nil, "t/a 1, t/b 1, t/g/e 1, t/g/f 1, t/s/c 1, t/s/d 1"},
			{[]string{"b", "e", "d"}, "t/a 1, t/g/f 1, t/s/c 1"},
			{[]string{"s", "a"}, "t/b 2, t/g/e 2, t/g/f 1"},
			{nil, "t/a 2, t/b 2, t/g/e 2, t/g/f 1, t/s/c 2, t/s/d 2"},
			{[]string{"t"}, ""},
			{[]string{"b"}, "t/a 3, t/g/e 3, t/g/f 2, t/s/c 3, t/s/d 3"},
		} {
			p.becomes(tree(step.suspended...))
			time.Sleep(time.Minute)
			if got := p.stage.cast(); got != step.want {
				t.Errorf("with %v suspended there live %s, want %s", step.suspended, got, step.want)
			}
		}
	})
}

// However an agent comes to be started again and again, its limit bounds it: an
// agent that dies, one that asks to be restarted, one that does nothing.
func TestQuarantineBounds(t *testing.T) {
	for _, tt := range []struct {
		limit supervisor.Limit
		most  int
	}{
		{supervisor.Quarantining(5, time.Hour), 120},
		{supervisor.Quarantining(2, 24*time.Hour), 2},
	} {
		tree := func(command string, limit supervisor.Limit) *spec.Tree {
			return edited(t, treeOf(t, "a="+command, "b"), "a", func(a *spec.Agent) { a.Limit = limit })
		}
		for name, run := range map[string]func(p *play){
			"dies after 5s": func(p *play) { p.stage.plays("t/a", part{lives: 5 * time.Second}) },
			"dies after 2m": func(p *play) { p.stage.plays("t/a", part{lives: 2 * time.Minute}) },
			"dies after 6m": func(p *play) { p.stage.plays("t/a", part{lives: 6 * time.Minute}) },
			"ends cleanly": func(p *play) {
				p.stage.plays("t/a", part{lives: time.Second, exit: supervisor.Exit{Kind: supervisor.Normal}})
			},
			"cannot be started":    func(p *play) { p.stage.plays("t/a", part{start: errors.New("boom")}) },
			"asks to be restarted": nil,
			"idles":                nil,
		} {
			t.Run(fmt.Sprint(name, " ", tt.limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage()
					s.quiet = true
					first := tree("x", tt.limit)
					if name == "idles" { // as all do on this stage
						first = edited(t, first, "a", func(a *spec.Agent) { a.IdleTimeout = time.Minute })
					}
					p := raise(t, s, memory.New(), first)
					defer p.close()
					begun := time.Now()
					ctx := context.Background()
					switch name {
					case "asks to be restarted":
						for time.Since(begun) < 24*time.Hour-time.Minute {
							if a := s.on("t/a"); a != nil {
								p.control.RequestRestart(ctx, token.Caller{Path: "t/a", Incarnation: a.launch.Incarnation}, "full")
							}
							time.Sleep(10 * time.Second)
						}
					case "idles":
						time.Sleep(24*time.Hour - time.Second)
					default:
						run(p)
						s.on("t/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
						time.Sleep(24*time.Hour - time.Since(begun) - time.Second)
					}
					if n := s.starts("t/a"); n > tt.most || n < tt.most*4/5 {
						t.Errorf("it was started %d times in a day, want at most %d and hardly less", n, tt.most)
					}
					if n := s.starts("t/b"); n != 1 {
						t.Errorf("its sibling was started %d times", n)
					}
					if all := p.happened(event.AgentQuarantined); len(all) == 0 || len(all) > s.starts("t/a") {
						t.Errorf("%d starts, and it was told %d times that it is held", s.starts("t/a"), len(all))
					}
				})
			})
		}
	}
}

// A change of its declaration is no failure of an agent: its limit neither holds
// the restart for it nor counts it, also where the agent finishes first.
func TestChangesAreNotHeld(t *testing.T) {
	for _, finishes := range []bool{false, true} {
		t.Run(fmt.Sprint("finishes ", finishes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := func(n int) *spec.Tree {
					return edited(t, treeOf(t, fmt.Sprint("a=x", n)), "a", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, 24*time.Hour) })
				}
				s := newStage()
				s.quiet = true
				p := raise(t, s, memory.New(), tree(0))
				defer p.close()
				time.Sleep(time.Minute)
				const changes = 20
				for n := range changes {
					who := token.Caller{Path: "t/a", Incarnation: s.on("t/a").launch.Incarnation}
					if finishes {
						if d := p.drains.Draining(who); d != nil { // from now on it looks for drains
							t.Fatal(d)
						}
					}
					p.becomes(tree(n + 1))
					time.Sleep(30 * time.Second)
					if d := p.drains.Draining(who); d != nil {
						p.drains.AckDrain(who)
					} else if finishes {
						t.Fatal("it was not asked to finish")
					}
					time.Sleep(30 * time.Second)
				}
				if a := s.on("t/a"); a == nil || a.launch.Incarnation != changes+1 {
					t.Fatalf("there lives %v, want incarnation %d", a, changes+1)
				}
				if all := p.happened(event.AgentQuarantined); len(all) != 0 {
					t.Errorf("it was held: %v", all)
				}
				s.on("t/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
				time.Sleep(time.Minute)
				if a := s.on("t/a"); a == nil || a.launch.Incarnation != changes+2 {
					t.Errorf("after its first failure there lives %v", a)
				}
			})
		})
	}
}

// An exit is acted on by its supervisor at once, not by the next round.
func TestExitIsActedOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a"))
		defer p.close()
		for n := range 10 {
			p.stage.on("t/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
			time.Sleep(5 * time.Millisecond)
			if a := p.stage.on("t/a"); a == nil || a.launch.Incarnation != uint64(n+2) {
				t.Fatalf("after 5ms there lives %v", a)
			}
		}
	})
}

// 1000 agents at rest.
func BenchmarkTick(b *testing.B) {
	tree := treeOf(b, names(1000)...)
	s := newStage()
	s.quiet = true
	c := mustOpen(b, s, memory.New(), tree)
	defer func() { c.Stop(false); <-c.Ended() }()
	if err := c.Started(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := c.loop.Plan(); len(r.Actions) > 0 {
			b.Fatal(r.Actions)
		}
	}
}

// An agent is started again when what is in its files changes, or they come and
// go; not for what was there when it started, nor for a daemon that ends.
func TestDriftOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt.md")
	synctest.Test(t, func(t *testing.T) {
		put := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute) // some rounds
		}
		tree := edited(t, treeOf(t, "a", "b"), "a", func(a *spec.Agent) { a.Files = []string{file} })
		s, db := newStage(), memory.New()
		p := raise(t, s, db, tree)
		time.Sleep(10 * time.Minute)
		if got := s.cast(); got != "t/a 1, t/b 1" {
			t.Errorf("with no file there live %s", got)
		}
		put("one")
		if got := s.cast(); got != "t/a 2, t/b 1" {
			t.Errorf("with a file there live %s", got)
		}
		put("two")
		put("two")
		if got := s.cast(); got != "t/a 3, t/b 1" {
			t.Errorf("with another one there live %s", got)
		}
		p.stage.on("t/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
		time.Sleep(10 * time.Minute)
		if got := s.cast(); got != "t/a 4, t/b 1" {
			t.Errorf("after a crash there live %s", got)
		}
		for _, message := range p.happened(event.AgentDrifted) {
			if !strings.HasSuffix(message, "drifted: files."+file) {
				t.Errorf("it says %s", message)
			}
		}
		p.Stop(true)
		<-p.Ended()
		p = raise(t, s, db, tree)
		defer p.close()
		time.Sleep(10 * time.Minute)
		if got := s.cast(); got != "t/a 4, t/b 1" {
			t.Errorf("with another daemon there live %s", got)
		}
		put("three")
		if got := s.cast(); got != "t/a 5, t/b 1" {
			t.Errorf("and then %s", got)
		}
	})
}

// What was in the files of an agent is known to the next controller also if
// nothing has happened to the agent since that was learnt.
func TestDriftOfFilesOverDaemons(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt.md")
	synctest.Test(t, func(t *testing.T) {
		put := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tree := edited(t, treeOf(t, "a", "b"), "a", func(a *spec.Agent) { a.Files = []string{file} })
		s, db := newStage(), memory.New()
		put("one")
		p := raise(t, s, db, tree)
		time.Sleep(2 * time.Minute)
		p.Stop(true)
		<-p.Ended()
		put("two, unobserved")
		p = raise(t, s, db, tree)
		time.Sleep(2 * time.Minute)
		if got := s.cast(); got != "t/a 2, t/b 1" {
			t.Errorf("there live %s", got)
		}
		p.Stop(true)
		<-p.Ended()
		p = raise(t, s, db, tree)
		time.Sleep(2 * time.Minute)
		if got := s.cast(); got != "t/a 2, t/b 1" {
			t.Errorf("without another change there live %s", got)
		}
		p.becomes(treeOf(t, "b"))
		time.Sleep(time.Minute)
		if left, _, err := db.Snapshot(context.Background(), "prints"); err != nil || len(left) > 0 {
			t.Errorf("of what is gone there is left %v, %v", left, err)
		}
		p.close()
	})
}

// A plan on request sees what is in the files now.
func TestPatrolReadsTheFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt.md")
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, edited(t, treeOf(t, "a"), "a", func(a *spec.Agent) { a.Files = []string{file} }))
		defer p.close()
		time.Sleep(2 * time.Minute)
		before := p.hashes.Desired(p.fleet().Agents["t/a"], spec.Hash{}).Sum
		if err := os.WriteFile(file, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.patrol.Patrol(context.Background(), true); err != nil {
			t.Fatal(err)
		}
		a := p.fleet().Agents["t/a"]
		if p.hashes.Desired(a, spec.Hash{}).Sum == before {
			t.Error("what is in the file is not known")
		}
		time.Sleep(time.Second)
		if got := p.stage.cast(); got != "t/a 2" {
			t.Errorf("there lives %s", got)
		}
	})
}
