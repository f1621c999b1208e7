package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// The invariants of the Gas City seed, by the names that they have there. Each
// is checked after every step of the model, unless it says that it is held
// elsewhere.
const (
	singleController  = "Single controller"                                                         // TestUpTwice, TestLock, over processes
	idempotent        = "Reconciliation is idempotent"                                              // a round right after a round does nothing
	bounded           = "Crash tracking is bounded"                                                 // no window has more than its limit counts, nor is anything started more often
	autoExpires       = "Quarantine auto-expires"                                                   // what is held has a time, which passes
	resets            = "Crash tracking resets on controller restart"                               // unless persist = true
	contentHashing    = "Config drift uses content hashing, not timestamps"                         // the same file again changes nothing
	noPIDFiles        = "No PID files for liveness"                                                 // what lives is what the runtime says
	noRoleNames       = "No role names in Go code"                                                  // names are drawn
	selfSufficiency   = "SDK self-sufficiency"                                                      // nothing but the controller runs in this test
	trackedBeforehand = "Order tracking beads are created synchronously before dispatch goroutines" // of orders
)

// patrolModel is what should be, as a person would expect it.
type patrolModel struct {
	t       *rapid.T
	p       *play
	store   *memory.Store
	wanted  map[string]modelAgent // by name, of the file in force
	stopped map[string]bool       // by path: by hand
	recall  spec.RestorePolicy
	began   time.Time            // of the last reload
	limited map[string]bool      // by path: as it was in the file last
	cleared map[string]time.Time // by path: from then on its starts count, as somebody has decided
}

// modelAgent is an agent in the file.
type modelAgent struct {
	command   string
	parent    string // a supervisor, or ""
	suspended bool
	limited   bool // Quarantining(3, 1h)
	needs     string
}

func (a modelAgent) path(name string) string {
	if a.parent != "" {
		return "t/" + a.parent + "/" + name
	}
	return "t/" + name
}

// file draws what the file says.
func (m *patrolModel) file() map[string]modelAgent {
	all := make(map[string]modelAgent)
	names := []string{"a", "b", "c", "d", "e"}
	for i, name := range names {
		if name != "a" && rapid.IntRange(0, 3).Draw(m.t, "leave out "+name) == 0 {
			continue
		}
		a := modelAgent{
			command:   rapid.SampledFrom([]string{"x", "y"}).Draw(m.t, "command"),
			suspended: rapid.IntRange(0, 5).Draw(m.t, "suspended") == 0,
			limited:   rapid.Bool().Draw(m.t, "limited"),
		}
		if name > "b" {
			a.parent = rapid.SampledFrom([]string{"", "s"}).Draw(m.t, "parent")
		}
		if i > 0 && a.parent == "" && rapid.IntRange(0, 2).Draw(m.t, "needs") == 0 {
			if before := names[rapid.IntRange(0, i-1).Draw(m.t, "needed")]; all[before].command != "" {
				a.needs = before
			}
		}
		all[name] = a
	}
	return all
}

// tree is the tree of a file.
func (m *patrolModel) tree(file map[string]modelAgent) *spec.Tree {
	var decls []spec.Decl
	var inner []string
	for _, name := range slices.Sorted(maps.Keys(file)) {
		a := file[name]
		agent := &spec.Agent{Name: name, Dir: "/", Command: []string{a.command}, Suspended: a.suspended, Limit: supervisor.Limit{Max: supervisor.Unlimited}}
		if a.limited {
			agent.Limit = supervisor.Quarantining(3, time.Hour)
		}
		if a.needs != "" {
			agent.DependsOn = []string{a.needs}
		}
		if a.parent != "" {
			inner = append(inner, name)
		}
		decls = append(decls, spec.Decl{Agent: agent})
	}
	if inner != nil {
		decls = append(decls, spec.Decl{Node: &spec.Node{Name: "s"}, Children: inner})
	}
	tree, problems := spec.Assemble(spec.Node{Name: "t"}, decls)
	if problems != nil {
		m.t.Fatalf("%v", problems)
	}
	tree.RestorePolicy = m.recall
	return tree
}

func hasParent(file map[string]modelAgent, parent string) bool {
	for _, a := range file {
		if a.parent == parent {
			return true
		}
	}
	return false
}

// settle lets everything happen that is under way.
func (m *patrolModel) settle() {
	time.Sleep(3 * time.Second)
	if err := m.p.loop.AwaitIdle(context.Background()); err != nil {
		m.t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
}

func (m *patrolModel) raise(tree *spec.Tree, s *stage) {
	c, err := Open(context.Background(), Options{Tree: tree, Store: m.store, Runtimes: stages(s), Logger: quietly})
	if err != nil {
		m.t.Fatal(err)
	}
	m.p = &play{c, m.t, s, m.store}
	m.settle()
}

func (m *patrolModel) reload(t *rapid.T) {
	m.t = t
	file := m.file()
	m.began = time.Now()
	if !hasParent(m.wanted, "s") { // its agents start with the supervisor, which does not count
		for name, a := range file {
			if a.parent == "s" {
				m.cleared[a.path(name)] = m.began
			}
		}
	}
	changes, err := m.p.apply(context.Background(), m.tree(file), fleet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.p.apply(context.Background(), m.tree(file), fleet.Config{})
	if err != nil || !again.Empty() {
		t.Fatalf("%s: after %+v the same file is said to differ: %+v, %v", contentHashing, changes, again, err)
	}
	m.wanted = file
	for name, a := range file { // a limit that has changed starts over
		if was, known := m.limited[a.path(name)]; !known || was != a.limited {
			m.cleared[a.path(name)] = m.began
		}
		m.limited[a.path(name)] = a.limited
	}
	m.settle()
}

func (m *patrolModel) someLiving(t *rapid.T) (string, *actor) {
	var all []string
	for name, a := range m.wanted {
		if m.p.stage.on(a.path(name)) != nil {
			all = append(all, a.path(name))
		}
	}
	if len(all) == 0 {
		t.Skip()
	}
	slices.Sort(all)
	path := rapid.SampledFrom(all).Draw(t, "path")
	return path, m.p.stage.on(path)
}

func (m *patrolModel) somePath(t *rapid.T) string {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(m.wanted))).Draw(t, "name")
	return m.wanted[name].path(name)
}

// A day in the life of a fleet, at random: files, exits, drains, restarts that
// are asked for, stops and starts by hand, new controllers.
func TestPatrolModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stopped any // what rapid has panicked with, which has to leave the bubble
		synctest.Test(t, func(*testing.T) {
			m := &patrolModel{t: rt, store: memory.New(), stopped: make(map[string]bool), limited: make(map[string]bool), cleared: make(map[string]time.Time)}
			defer func() {
				stopped = recover()
				if m.p != nil {
					m.p.Stop(false)
					<-m.p.Ended()
				}
			}()
			m.recall = spec.RestorePolicy(rapid.IntRange(0, 2).Draw(rt, "recall"))
			m.wanted = m.file()
			for name, a := range m.wanted {
				m.limited[a.path(name)] = a.limited
			}
			m.raise(m.tree(m.wanted), newStage())
			rt.Repeat(map[string]func(*rapid.T){
				"":       m.check,
				"reload": m.reload,
				"exit": func(t *rapid.T) {
					_, a := m.someLiving(t)
					a.end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
					m.settle()
				},
				"ask to be restarted": func(t *rapid.T) {
					path, a := m.someLiving(t)
					m.p.control.RequestRestart(context.Background(), token.Caller{Path: path, Incarnation: a.launch.Incarnation}, "full")
					m.settle()
				},
				"look for drains": func(t *rapid.T) {
					path, a := m.someLiving(t)
					who := token.Caller{Path: path, Incarnation: a.launch.Incarnation}
					if d := m.p.drains.Draining(who); d != nil && rapid.Bool().Draw(t, "finish") {
						m.p.drains.AckDrain(who)
					}
					m.settle()
				},
				"stop": func(t *rapid.T) {
					path := m.somePath(t)
					if _, err := m.p.control.Act(context.Background(), path, control.Stop); err == nil {
						m.stopped[path] = true
					}
					m.settle()
				},
				"start": func(t *rapid.T) {
					path := m.somePath(t)
					m.cleared[path] = time.Now()
					if _, err := m.p.control.Act(context.Background(), path, control.Start); !errors.Is(err, api.ErrConflict) { // suspended by the file
						delete(m.stopped, path)
					}
					m.settle()
				},
				"wait": func(t *rapid.T) {
					time.Sleep(rapid.SampledFrom([]time.Duration{time.Minute, 61 * time.Minute}).Draw(t, "time"))
					m.settle()
				},
				"stranger": func(t *rapid.T) {
					path := "t/" + rapid.SampledFrom([]string{"f", "s/g", "old/h"}).Draw(t, "path")
					m.p.stage.intrude(path)
					time.Sleep(m.p.fleet().Patrol.Interval)
					m.settle()
				},
				"blind": m.blind,
				"another controller": func(t *rapid.T) {
					m.p.Stop(true)
					<-m.p.Ended()
					if m.recall != spec.RestoreAll {
						for path := range m.limited { // resets
							m.cleared[path] = time.Now()
						}
					}
					m.raise(m.tree(m.wanted), m.p.stage)
				},
			})
		})
		switch fmt.Sprintf("%T", stopped) { // rapid tells faults from what it has drawn by where they come from
		case "<nil>":
		case "rapid.stopTest":
			panic(stopped)
		default:
			panic(stopped)
		}
	})
}

// blind has a round while nothing can be told of what is below the root: it plans nothing.
func (m *patrolModel) blind(t *rapid.T) {
	before := m.p.stage.cast()
	f := m.p.fleet()
	if r := planBlind(m.p.observer.Desired(f)); len(r.Actions) > 0 {
		t.Fatalf("of what it cannot see it plans %v", r.Actions)
	}
	if after := m.p.stage.cast(); after != before {
		t.Fatalf("%s became %s", before, after)
	}
}

// releases returns when agents were last released as they had changed, by path.
func (m *patrolModel) releases() map[string]time.Time {
	f := event.Filter{Types: []string{string(event.AgentDrifted)}}
	events, _, err := m.p.log.Read(context.Background(), 0, f, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	at := make(map[string]time.Time)
	for _, e := range events {
		if strings.Contains(e.Message, "with fresh counters") {
			at[e.Path] = e.Time
		}
	}
	return at
}

// changes counts what the file has changed about an agent: its starts for that are no failures.
func (m *patrolModel) changes(path string, since time.Time) (n int) {
	f := event.Filter{Types: []string{string(event.AgentDrifted), string(event.AgentSuspended)}}
	events, _, err := m.p.log.Read(context.Background(), 0, f, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range events {
		within := m.p.fleet().Patrol.DriftDrainTimeout // it may be asked to finish first
		if e.Path == path && !e.Time.Add(within).Before(since) {
			n++
		}
	}
	return n
}

// check holds the fleet to what is expected of it.
func (m *patrolModel) check(t *rapid.T) {
	m.t = t
	p := m.p
	ctx := context.Background()

	// idempotent
	told, asked := p.log.Mark(), time.Now()
	r, err := p.patrol.Patrol(ctx, false)
	if err != nil || len(r.Actions) > 0 {
		t.Fatalf("%s: there is still %v to do, %v", idempotent, r.Actions, err)
	}
	time.Sleep(10 * time.Millisecond)
	if p.log.Mark() != told && !m.due(asked) {
		t.Fatalf("%s: a round at rest has done something: %q", idempotent, p.happened())
	}

	for path, at := range m.releases() { // what has changed while it was held counts from then on
		if at.After(m.cleared[path]) {
			m.cleared[path] = at
		}
		if !p.stage.changedBy(path, at) {
			t.Fatalf("%s: %s was released and runs the same", bounded, path)
		}
	}
	delays := make(map[string]pool.PassDelay)
	for _, d := range r.Delays {
		delays[d.Path] = d
	}
	paths := make(map[string]bool)
	for name, a := range m.wanted {
		path := a.path(name)
		paths[path] = true
		sup, id, err := p.tree.Locate(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		info, err := sup.Child(id)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		lives := p.stage.on(path)

		// bounded
		if info.Limit.Max >= 0 && info.InWindow > info.Limit.Max {
			t.Fatalf("%s: %s has %d in the window of %v", bounded, path, info.InWindow, info.Limit)
		}
		since := time.Now().Add(-info.Limit.Within)
		if at := m.cleared[path]; at.After(since) {
			since = at.Add(-1)
		}
		if n := p.stage.startsSince(path, since); a.limited && n > info.Limit.Max+m.changes(path, since) {
			t.Fatalf("%s: %s was started %d times since %v, with a limit of %v", bounded, path, n, since, info.Limit)
		}
		// autoExpires
		if info.State == supervisor.Quarantined && (info.NextAt.IsZero() || time.Until(info.NextAt) > time.Hour+time.Minute) {
			t.Fatalf("%s: %s is held until %v", autoExpires, path, info.NextAt)
		}
		// noPIDFiles
		if (lives != nil) != (info.State == supervisor.Running) {
			t.Fatalf("%s: %s is %v, and lives: %v", noPIDFiles, path, info.State, lives != nil)
		}

		switch {
		case m.stopped[path]:
			if lives != nil {
				t.Fatalf("%s was stopped by hand, and lives", path)
			}
		case a.suspended:
			if lives != nil {
				t.Fatalf("%s is suspended by the file, and lives", path)
			}
		case info.State == supervisor.Quarantined:
			if !a.limited {
				t.Fatalf("%s has no limit, and is held", path)
			}
		case delays[path].For != "":
			need := m.wanted[a.needs]
			if a.needs == "" || p.stage.on(need.path(a.needs)) != nil {
				t.Fatalf("%s waits for %s, which lives", path, delays[path].For)
			}
		case lives == nil:
			t.Fatalf("%s does not live, it is %v (%v)", path, info.State, info.Reason)
		case lives.launch.Argv[0] != a.command && delays[path].Until == nil && !p.drains.Has(path):
			t.Fatalf("%s runs %s, the file says %s", path, lives.launch.Argv[0], a.command)
		}
	}
	for _, alive := range strings.Split(p.stage.cast(), ", ") {
		path, _, _ := strings.Cut(alive, " ")
		if path != "" && !paths[path] {
			t.Fatalf("%s lives, and is not wanted", path)
		}
	}
}

// due reports whether something may have come due by itself since then.
func (m *patrolModel) due(since time.Time) bool {
	now := time.Now()
	within := func(t time.Time) bool { return !t.Before(since) && !t.After(now) }
	for path := range m.p.fleet().Agents {
		if d, ok := m.p.drains.Of(path); ok && within(d.Deadline) {
			return true
		}
	}
	for _, sup := range []*supervisor.Supervisor{m.p.root, m.p.tree.Find("t/s")} {
		if sup == nil {
			continue
		}
		children, _ := sup.Children()
		for _, i := range children {
			if within(i.NextAt) || within(i.RoomAt) || i.State == supervisor.Running && within(i.StartedAt) {
				return true
			}
		}
	}
	return false
}

// A new controller knows of no quarantine, unless it is to; of other limits it
// knows unless it is not to.
func TestQuarantineEndsWithTheController(t *testing.T) {
	boom := supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")}
	for recall, want := range map[spec.RestorePolicy]string{
		spec.RestoreMost:    "t/a 2, t/b 1, t/s/d 2",
		spec.RestoreAll:     "t/b 1",
		spec.RestoreNothing: "t/a 2, t/b 1, t/c 2, t/s/d 2",
	} {
		for _, keep := range []bool{true, false} {
			t.Run(fmt.Sprint(recall, " ", keep), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tree := func() *spec.Tree {
						tree := edited(t, treeOf(t, "a", "b", "c", "s(d)"), "a", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(1, time.Hour) })
						edited(t, tree, "c", func(a *spec.Agent) { a.Limit = supervisor.GivingUp(0) })
						edited(t, tree, "d", func(a *spec.Agent) { a.Limit = supervisor.Limit{} })
						for path, child := range tree.All() {
							if path == "t/s" {
								child.Node.Limit = supervisor.Quarantining(1, time.Hour)
							}
						}
						tree.RestorePolicy = recall
						return tree
					}
					s, db := newStage(), memory.New()
					p := raise(t, s, db, tree())
					for _, path := range []string{"t/a", "t/c", "t/s/d"} {
						s.on(path).end(boom)
					}
					time.Sleep(time.Minute)
					if a, c, d := p.state("t/a"), p.state("t/c"), p.state("t/s/d"); a != supervisor.Quarantined || c != supervisor.GivenUp || d != a {
						t.Fatalf("they are %v, %v, %v", a, c, d)
					}
					p.Stop(keep)
					<-p.Ended()
					p = raise(t, s, db, tree())
					if !keep {
						want = strings.Replace(want, "t/b 1", "t/b 2", 1)
					}
					if got := s.cast(); got != want {
						t.Errorf("%s: with another controller there live %s, want %s", resets, got, want)
					}
					if n := len(p.happened(event.AgentReleased)); n != strings.Count(want, ",") {
						t.Errorf("of %s it is told %d times that they are released", want, n)
					}
					p.Stop(true)
					<-p.Ended()
					p = raise(t, s, db, tree())
					defer p.close()
					if got := s.cast(); got != want {
						t.Errorf("%s: with a third controller there live %s, want %s", resets, got, want)
					}
					time.Sleep(time.Hour)
					if s.on("t/a") == nil || s.on("t/s/d") == nil {
						t.Errorf("%s: there live %s", autoExpires, s.cast())
					}
				})
			})
		}
	}
}

// An agent that leaves the file and comes back while the controller lives has
// no fresh budget, wherever its quarantine would end with the controller.
func TestQuarantineOutlivesTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func() *spec.Tree {
			return edited(t, treeOf(t, "a", "b"), "a", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, time.Hour) })
		}
		s, db := newStage(), memory.New()
		p := raise(t, s, db, with())
		for range 2 {
			s.on("t/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
			time.Sleep(time.Minute)
		}
		p.becomes(treeOf(t, "b"))
		p.becomes(with())
		if p.state("t/a") != supervisor.Quarantined {
			t.Errorf("back in the file it is %v", p.state("t/a"))
		}
		p.becomes(treeOf(t, "b"))
		p.Stop(true)
		<-p.Ended()
		p = raise(t, s, db, treeOf(t, "b"))
		defer p.close()
		p.becomes(with())
		if s.on("t/a") == nil {
			t.Errorf("back in the file of another controller it is %v", p.state("t/a"))
		}
	})
}
