package control

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestAct tests the resulting state and the answer of each action on an agent.
func TestAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, memory.New())
		for _, step := range []struct {
			path    string
			action  Action
			changed int
			err     error
			state   supervisor.State
			number  uint64
		}{
			{"a", Start, 0, nil, supervisor.Running, 1}, // it runs already
			{"a", Stop, 1, nil, supervisor.Suspended, 1},
			{"a", Stop, 0, nil, supervisor.Suspended, 1},
			{"a", Resume, 0, api.ErrConflict, supervisor.Suspended, 1}, // it was stopped, not suspended
			{"t/a", Start, 1, nil, supervisor.Running, 2},
			{"a", Suspend, 1, nil, supervisor.Suspended, 2},
			{"a", Resume, 1, nil, supervisor.Running, 3},
			{"a", Restart, 1, nil, supervisor.Running, 4},
			{"a", "explode", 0, api.ErrInvalid, supervisor.Running, 4},
			{"c", Stop, 0, api.ErrNotFound, supervisor.Running, 4},
		} {
			done, err := m.Act(t.Context(), step.path, step.action)
			if !errors.Is(err, step.err) || err == nil && done.Changed != step.changed {
				t.Errorf("%s %s: %+v, %v", step.action, step.path, done, err)
			}
			if i, err := m.Tree.Root().Child("a"); err != nil || i.State != step.state || i.Incarnation != step.number {
				t.Errorf("after %s: %v, incarnation %d, %v", step.action, i.State, i.Incarnation, err)
			}
		}
	})
}

// The suspension of the project holds for the next daemon, until it is resumed.
func TestSuspendProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		m := newManager(t, db)
		if _, err := m.Act(t.Context(), "", Suspend); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Act(t.Context(), "a", Start); !errors.Is(err, api.ErrConflict) {
			t.Errorf("an agent of a suspended project is started: %v", err)
		}
		next := New(m.Options)
		if err := next.Restore(t.Context()); err != nil || !next.IsProjectSuspended() || next.SuspendedBy("t/a") == "" {
			t.Errorf("the next daemon runs it: %v", err)
		}
		if _, err := next.Act(t.Context(), "", Resume); err != nil || next.IsProjectSuspended() {
			t.Errorf("it is not resumed: %v", err)
		}
		last := New(m.Options)
		if err := last.Restore(t.Context()); err != nil || last.IsProjectSuspended() {
			t.Errorf("it is suspended again: %v", err)
		}
	})
}

// none implements Drains and Triggers without any.
type none struct{}

func (none) Has(string) bool                     { return false }
func (none) Of(string) (drain.State, bool)       { return drain.State{}, false }
func (none) Cancel(context.Context, string) bool { return false }
func (none) HeldBy(string) supervisor.Reason     { return supervisor.NoReason }
func (none) Act(context.Context, string, Action,
	func(supervisor.ChildInfo, func(error) error) (bool, error)) error {
	return nil
}

// newManager returns a Manager of the tree t with the agents a and b.
func newManager(t *testing.T, db store.Store) *Manager {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	log, err := event.Open(event.Config{Store: db, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context) error { <-ctx.Done(); return nil }
	root := supervisor.Spec{Name: "t"}
	node := &spec.Node{Name: "t"}
	for _, name := range []string{"a", "b"} {
		root.Children = append(root.Children, supervisor.ChildSpec{ID: name, Run: run})
		node.Children = append(node.Children, spec.Child{Agent: &spec.Agent{Name: name}})
	}
	f := fleet.New(&spec.Tree{Root: node}, fleet.Config{})
	j := journal.New(journal.Options{
		Log: log, Wanted: f.Has, Hash: func(string, uint64) *agent.SavedHash { return nil },
		Features:  func(supervisor.Event) []store.Op { return nil },
		Remembers: func(string) int { return 1 },
	})
	root.OnEvent = j.Event
	sup, err := supervisor.Launch(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		sup.Stop()
		sup.Wait()
		log.Close(context.Background())
	})
	loop := reconcile.NewLoop(reconcile.LoopOptions{
		Desired:     func() []reconcile.Desired { return nil },
		Observe:     func() map[string]*reconcile.Observed { return nil },
		RemoveFirst: func(map[string]*reconcile.Observed) map[string][]string { return nil },
		BeforePass:  func() {}, AfterPlan: func() {}, AfterPass: func(time.Duration) {},
		Interval: func() time.Duration { return time.Hour },
		Go:       func(do func(context.Context)) { go do(ctx) }, Stopping: ctx.Done(), Ended: ctx.Done(),
	})
	go loop.Run(ctx)
	tree := &Tree{
		Fleet: func() *fleet.Fleet { return f }, Root: func() *supervisor.Supervisor { return sup },
		State:   func() supervisor.State { return supervisor.Running },
		Session: func(string) runtime.Session { return nil }, LastStart: j.LastStart,
	}
	return New(Options{
		Store: db, Log: log, Journal: j, Logger: quiet, Tree: tree, Reconcile: loop, Drains: none{}, Triggers: none{},
		Adoptions: func() []string { return nil }, MayStart: func(string) error { return nil },
		Restarts: agent.NewRestarts(agent.RestartOptions{Store: db, Log: log, Logger: quiet}),
		Stopper: agent.NewStopper(agent.StopOptions{
			Log: log, Timeout: func(string) time.Duration { return time.Second }, Find: tree.Find, Ended: ctx.Done(),
			Order: func(string) *spec.StartOrder { return f.Tree.StartOrder() },
		}),
	})
}
