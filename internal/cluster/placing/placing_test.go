package placing_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// An agent of a lost node is unknown until its lease has ended and the agent has had time to stop. Then it is dead,
// and can be started elsewhere.
func TestLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := newNode(t, s, "a"), newNode(t, s, "b")
		first := lead(t, s, a, b)
		if _, err := first.Start(t.Context(), launch("x", 1)); err != nil {
			t.Fatal(err)
		}
		first.end() // and nothing renews the lease of a any more
		a.set(func(m *machine) { m.unreachable = true })
		next := lead(t, s, b, a)
		defer func() { next.end() }()
		begun := time.Now()
		for {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if b.epoch() != 0 {
				if err := b.held().Renew(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			passed := time.Since(begun)
			_, startErr := next.Start(t.Context(), launch("x", 2))
			if o := next.observe(t, "x"); startErr != nil && o.Life != runtime.Unknown {
				t.Fatalf("after %v it is %v, and a start fails: %v", passed, o.Life, startErr)
			}
			if startErr == nil {
				if passed < ttl+grace || passed > ttl+grace+3*time.Second {
					t.Errorf("it was started elsewhere after %v", passed)
				}
				break
			}
			if !errors.Is(startErr, runtime.ErrUnknown) {
				t.Fatalf("after %v: %v", passed, startErr)
			}
			if passed > time.Minute {
				t.Fatal("it is never started elsewhere: ", startErr)
			}
		}
		if !slices.Equal(next.lost, []string{"a"}) {
			t.Errorf("lost nodes: %v", next.lost)
		}
		if got := b.alive(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("on b: %v", got)
		}
		if place, _ := next.places.Of("x"); place.Node != "b" || place.Incarnation != 2 {
			t.Errorf("%+v", place)
		}
	})
}

// What is known of an incarnation that was lost: its exit names the node, and it is adopted as ended.
func TestLostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := newNode(t, s, "a"), newNode(t, s, "b")
		first := lead(t, s, a, b)
		if _, err := first.Start(t.Context(), launch("x", 4)); err != nil {
			t.Fatal(err)
		}
		first.end()
		a.set(func(m *machine) { m.unreachable = true })
		next := lead(t, s, b, a)
		defer next.end()
		if _, err := next.Adopt(t.Context(), "x"); !errors.Is(err, runtime.ErrUnknown) ||
			!strings.Contains(err.Error(), "node a does not answer") {
			t.Error(err)
		}
		if err := a.held().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if o := next.observe(t, "x"); o.Life != runtime.Unknown ||
			!strings.Contains(o.Detail, "node a, which is lost") {
			t.Errorf("%+v", o)
		}
		given, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := next.Adopt(given, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		session, err := next.Adopt(t.Context(), "x") // waits until it has ended
		if err != nil {
			t.Fatal(err)
		}
		<-session.Done()
		exit, o := session.Exit(), session.Observe()
		if exit.Kind != supervisor.Lost || !errors.Is(exit.Err, runtime.ErrNodeLost) ||
			!strings.Contains(exit.String(), "node a") {
			t.Error(exit)
		}
		if o.Incarnation != 4 || o.Token != "x4" || o.Life != runtime.Dead || o.ExitedAt.IsZero() {
			t.Errorf("%+v", o)
		}
		for _, n := range []uint64{3, 4} {
			if _, err := next.Start(t.Context(), launch("x", n)); !errors.Is(err, runtime.ErrStale) {
				t.Errorf("incarnation %d: %v", n, err)
			}
		}
		if err := next.Remove(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		if all, err := next.List(t.Context()); err != nil || len(all) != 0 {
			t.Error(all, err)
		}
	})
}

// A controller that has lost its lease, and a node without one, start nothing.
func TestFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a := newNode(t, s, "a")
		c := lead(t, s, a)
		if err := a.held().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Start(t.Context(), launch("x", 1)); !errors.Is(err, runtime.ErrNoNode) {
			t.Error("without a lease of the node: ", err)
		}
		a.acquire(t, s)
		c.end()
		if _, err := c.Start(t.Context(), launch("x", 1)); !errors.Is(err, runtime.ErrFenced) {
			t.Error("without a lease of the controller: ", err)
		}
		if got := a.alive(); len(got) != 0 {
			t.Errorf("it runs: %v", got)
		}
	})
}

// What has ended in order can be started elsewhere at once, and what is left of it here is neither listed nor in the
// way.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := newNode(t, s, "a"), newNode(t, s, "b")
		c := lead(t, s, a, b)
		for _, path := range []string{"x", "y"} {
			if _, err := c.Start(t.Context(), launch(path, 1)); err != nil {
				t.Fatal(err)
			}
		}
		a.end("x", nil)
		if err := c.places.Settle(t.Context(), []runtime.Runtime{a.machine}); err != nil {
			t.Fatal(err)
		}
		c.end()
		a.set(func(m *machine) { m.unreachable = true })
		next := lead(t, s, b, a)
		if _, err := next.Start(t.Context(), launch("x", 2)); err != nil {
			t.Error(err)
		}
		if _, err := next.Start(t.Context(), launch("y", 2)); !errors.Is(err, runtime.ErrUnknown) {
			t.Error("it still runs on a: ", err)
		}
		next.end()
		b.set(func(m *machine) { m.unreachable = true })
		again := lead(t, s, a, b)
		defer again.end()
		if o := again.observe(t, "y"); o.Life != runtime.Alive {
			t.Errorf("%+v", o)
		}
		evict := func(context.Context, string) error { t.Error("something was stopped"); return nil }
		if err := again.Sweep(t.Context(), evict); err != nil {
			t.Error(err)
		}
		if o := again.observe(t, "x"); o.Life != runtime.Unknown || o.Incarnation != 2 {
			t.Errorf("%+v", o)
		}
		if err := b.held().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(grace + 3*time.Second)
		if _, err := again.Start(t.Context(), launch("x", 3)); err != nil {
			t.Error(err)
		}
		if o := again.observe(t, "x"); o.Life != runtime.Alive || o.Incarnation != 3 {
			t.Errorf("%+v", o)
		}
	})
}

// What runs here although it was placed elsewhere since is stopped before anything else.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := newNode(t, s, "a"), newNode(t, s, "b")
		c := lead(t, s, b, a)
		if _, err := c.Start(t.Context(), launch("x", 2)); err != nil {
			t.Fatal(err)
		}
		c.end()
		for _, path := range []string{"x", "y"} {
			if _, err := a.machine.Start(t.Context(), launch(path, 1)); err != nil {
				t.Fatal(err)
			}
		}
		again := lead(t, s, a, b)
		defer again.end()
		var stopped []string
		err := again.Sweep(t.Context(), func(_ context.Context, path string) error {
			stopped = append(stopped, path)
			return nil
		})
		if err != nil || !slices.Equal(stopped, []string{"x"}) {
			t.Errorf("stopped: %v, %v", stopped, err)
		}
	})
}

// An agent leaves a node that refuses it, also that of the controller: one that cannot move its deadline takes none.
func TestRefused(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New()
			defer s.Close()
			nodes := map[string]*node{"a": newNode(t, s, "a"), "b": newNode(t, s, "b")}
			c := lead(t, s, nodes["a"], nodes["b"])
			defer c.end()
			c.wants["x"] = placement.Want{Node: name}
			if _, err := c.Start(t.Context(), launch("x", 1)); err != nil {
				t.Fatal(err)
			}
			nodes[name].end("x", nil)
			nodes[name].set(func(m *machine) { m.fenced = true })
			c.wants["x"] = placement.Want{}
			if _, err := c.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrFenced) {
				t.Errorf("on %s again: %v", name, err)
			}
			if _, err := c.Start(t.Context(), launch("x", 3)); err != nil {
				t.Errorf("after %s has refused it: %v", name, err)
			}
			if place, _ := c.places.Of("x"); place.Node == name {
				t.Errorf("it is still on node %s", name)
			}
		})
	}
}

// An agent that only one node takes is tried there again soon after that has refused it.
func TestRefusedByTheOnlyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a := newNode(t, s, "a")
		c := lead(t, s, a)
		defer c.end()
		a.set(func(m *machine) { m.fenced = true })
		for n := range uint64(2) {
			if _, err := c.Start(t.Context(), launch("x", n+1)); !errors.Is(err, runtime.ErrFenced) {
				t.Errorf("start %d: %v", n+1, err)
			}
		}
		a.set(func(m *machine) { m.fenced = false })
		time.Sleep(3 * time.Second)
		if _, err := c.Start(t.Context(), launch("x", 3)); err != nil || len(c.homeless) > 0 {
			t.Errorf("%v, homeless: %v", err, c.homeless)
		}
	})
}

// tmux is a runtime of another kind.
type tmux struct{ *machine }

func (tmux) Kind() string { return "tmux" }

// An incarnation that goes on in another runtime of this node is not started elsewhere.
func TestOtherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := newNode(t, s, "a"), newNode(t, s, "b")
		c := lead(t, s, a, b)
		defer c.end()
		if _, err := c.Start(t.Context(), launch("x", 1)); err != nil {
			t.Fatal(err)
		}
		other := placing.New(tmux{newMachine()}, c.places)
		c.wants["x"] = placement.Want{Node: "b"}
		if _, err := other.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("while it runs on a: %v", err)
		}
		a.end("x", nil)
		if _, err := other.Start(t.Context(), launch("x", 2)); err != nil {
			t.Error(err)
		}
		if got := b.alive(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("on b: %v", got)
		}
	})
}
