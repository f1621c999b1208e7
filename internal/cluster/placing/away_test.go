package placing_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// fleet calls a function with the controller on node a, which the nodes b and c follow, and has all leases renewed.
func fleet(t *testing.T, do func(t *testing.T, s store.Store, c *controller, a, b, x *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b, x := newNode(t, s, "a"), newNode(t, s, "b"), newNode(t, s, "c")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 3)
		for _, n := range []*node{a, b, x} {
			go func() {
				tick := time.NewTicker(ttl / 3)
				defer tick.Stop()
				for ctx.Err() == nil {
					select {
					case <-tick.C:
						n.mu.Lock()
						dead := n.dead
						n.mu.Unlock()
						if !dead && n.epoch() != 0 {
							n.held().Renew(ctx)
						}
					case <-ctx.Done():
					}
				}
				ended <- struct{}{}
			}()
		}
		defer func() {
			cancel()
			for range 3 {
				<-ended
			}
		}()
		c := lead(t, s, a, b, x)
		c.wants["x"] = placement.Want{Node: "b"}
		do(t, s, c, a, b, x)
		c.end()
	})
}

func (c *controller) start(t *testing.T, path string, incarnation uint64) *session {
	t.Helper()
	s, err := c.Start(t.Context(), launch(path, incarnation))
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

func isOver(s *session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// An agent on another node is started, listed, adopted and removed there.
func TestAway(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, _, b, _ *node) {
		c.start(t, "here", 1)
		if c.places.HasAway() {
			t.Error("none is elsewhere")
		}
		first := c.start(t, "x", 1)
		if !c.places.HasAway() {
			t.Error("x is elsewhere")
		}
		if got := b.alive(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("on b: %v", got)
		}
		place, _ := c.places.Of("x")
		if place.Node != "b" || place.Epoch != b.epoch() || !c.places.IsAway("x") || c.places.IsAway("none") {
			t.Errorf("%+v", place)
		}
		if err := c.Ready(t.Context(), "x", 1); err != nil || !b.slots["x"].o.Ready {
			t.Errorf("ready: %v", err)
		}
		if _, err := c.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("a second one: %v", err)
		}
		if o := c.observe(t, "x"); o.Life != runtime.Alive || o.Incarnation != 1 {
			t.Errorf("%+v", o)
		}
		if err := c.Remove(t.Context(), "x"); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("removing what runs: %v", err)
		}
		b.end("x", errCrashed)
		if !isOver(first) || !errors.Is(first.Exit().Err, errCrashed) {
			t.Errorf("exit: %v", first.Exit())
		}
		again, err := c.Adopt(t.Context(), "x")
		if err != nil || !isOver(again.(*session)) {
			t.Errorf("adopted: %v", err)
		}
		if err := c.Remove(t.Context(), "x"); err != nil || len(b.slots) != 0 {
			t.Errorf("removed: %v, %v", err, b.slots)
		}
		if _, ok := c.places.Of("x"); ok {
			t.Error("its place stays")
		}
		if _, err := c.Adopt(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}

// An agent moves when its node is drained or not wanted any longer, and only after it has ended there.
func TestMoves(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, a, b, x *node) {
		c.wants["x"] = placement.Want{}
		b.setDraining(true)
		a.setDraining(true)
		first := c.start(t, "x", 1)
		if got := x.alive(); !slices.Equal(got, []string{"x"}) {
			t.Fatalf("on c: %v", got)
		}
		if to, why := c.places.Move("x"); to != "" {
			t.Errorf("it moves to %s: %s", to, why)
		}
		b.setDraining(false)
		x.setDraining(true)
		c.places.Update()
		if to, why := c.places.Move("x"); to != "b" || why != "c is being drained" {
			t.Errorf("it moves to %s: %s", to, why)
		}
		if _, err := c.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("it runs on c: %v", err)
		}
		x.set(func(m *machine) { m.unreachable = true })
		if _, err := c.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("it may run on c: %v", err)
		}
		x.end("x", nil)
		if !isOver(first) {
			t.Fatal("its end was not told")
		}
		c.start(t, "x", 2) // its end is known, so c is not asked
		if place, _ := c.places.Of("x"); place.Node != "b" || !slices.Equal(place.Before, []string{"c"}) {
			t.Errorf("%+v", place)
		}
		x.set(func(m *machine) { m.unreachable = false })
		b.end("x", nil)
		if err := c.Remove(t.Context(), "x"); err != nil || len(x.slots)+len(b.slots) != 0 {
			t.Errorf("removed: %v, %v, %v", err, b.slots, x.slots)
		}
	})
}

// An agent that no node takes has not been started, and is told.
func TestNoNode(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, _, b, _ *node) {
		b.setDraining(true)
		_, err := c.Start(t.Context(), launch("x", 1))
		if !errors.Is(err, runtime.ErrNoNode) || !strings.Contains(err.Error(), "no node takes x: b is being drained") {
			t.Error(err)
		}
		if !slices.Equal(c.homeless, []string{"x"}) || c.places.IsTaken("x") {
			t.Errorf("without a node: %v", c.homeless)
		}
		if _, ok := c.places.Of("x"); ok {
			t.Error("it has a place")
		}
		b.setDraining(false)
		if !c.places.IsTaken("x") {
			t.Error("b takes it")
		}
		c.start(t, "x", 1)
	})
}

// A start that comes to a node under another lease than the controller knows is refused, and the node gets no agents
// for a while.
func TestOldLease(t *testing.T) {
	fleet(t, func(t *testing.T, s store.Store, c *controller, _, b, _ *node) {
		known := b.held().Fence().Epoch
		if err := b.held().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.acquire(t, s)
		c.epochs.Store("b", known)
		if _, err := c.Start(t.Context(), launch("x", 1)); !errors.Is(err, runtime.ErrFenced) {
			t.Error(err)
		}
		if got := b.alive(); len(got) != 0 {
			t.Errorf("it runs: %v", got)
		}
		if _, err := c.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrFenced) ||
			!strings.Contains(err.Error(), "no node takes x") {
			t.Error(err)
		}
		c.epochs.Delete("b")
		c.start(t, "x", 3)
	})
}

// A session ends when its node is lost, after the time that its agent has to stop; and no earlier.
func TestLostAway(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, _, b, _ *node) {
		s := c.start(t, "x", 1)
		b.set(func(m *machine) { m.unreachable, m.dead = true, true })
		began := time.Now()
		if o := c.observe(t, "x"); o.Life != runtime.Unknown || !strings.Contains(o.Detail, "node b does not answer") {
			t.Errorf("%+v", o)
		}
		<-s.Done()
		if passed := time.Since(began); passed < ttl+grace || passed > ttl+grace+3*time.Second {
			t.Errorf("it has ended after %v", passed)
		}
		if exit := s.Exit(); exit.Kind != supervisor.Lost || !errors.Is(exit.Err, runtime.ErrNodeLost) {
			t.Error(exit)
		}
		if !slices.Equal(c.lost, []string{"b"}) {
			t.Errorf("lost: %v", c.lost)
		}
		c.wants["x"] = placement.Want{Node: "c"}
		c.start(t, "x", 2)
	})
}

// The answer to a start is lost: the agent is adopted, and started nowhere else.
func TestMute(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, _, b, _ *node) {
		b.set(func(m *machine) { m.mute = true })
		if _, err := c.Start(t.Context(), launch("x", 1)); !errors.Is(err, runtime.ErrUnknown) {
			t.Error(err)
		}
		c.wants["x"] = placement.Want{Node: "c"}
		if _, err := c.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrBusy) {
			t.Error(err)
		}
		s, err := c.Adopt(t.Context(), "x")
		if err != nil || s.Observe().Life != runtime.Alive {
			t.Error(err)
		}
	})
}

// The next controller finds what runs on other nodes.
func TestTakeover(t *testing.T) {
	fleet(t, func(t *testing.T, s store.Store, c *controller, a, b, x *node) {
		c.start(t, "x", 1)
		c.end()
		next := lead(t, s, x, a, b)
		if o := next.observe(t, "x"); o.Life != runtime.Alive || o.Incarnation != 1 {
			t.Errorf("%+v", o)
		}
		session, err := next.Adopt(t.Context(), "x")
		if err != nil || session.Observe().Life != runtime.Alive {
			t.Fatal(err)
		}
		b.end("x", errCrashed)
		<-session.Done()
		c.end = next.end
	})
}

// The logs of removed agents are found on all nodes that answer, and those that do not are not waited for.
func TestRemovedAway(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, a, b, x *node) {
		a.set(func(m *machine) { m.removed = []string{"t/a", "t/both"} })
		b.set(func(m *machine) { m.removed = []string{"t/both", "t/b"} })
		x.set(func(m *machine) { m.removed, m.unreachable = []string{"t/x"}, true })
		begun := time.Now()
		got, err := c.Removed()
		if want := []string{"t/a", "t/b", "t/both"}; err != nil || !slices.Equal(got, want) || time.Since(begun) > ttl {
			t.Errorf("%v after %v, %v; want %v", got, time.Since(begun), err, want)
		}
		x.set(func(m *machine) { m.unreachable = false })
		time.Sleep(2 * time.Second) // until what was asked first has ended, in the time of the bubble
		if got, err := c.Removed(); err != nil || !slices.Contains(got, "t/x") {
			t.Errorf("%v, %v", got, err)
		}
	})
}
