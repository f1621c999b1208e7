package placing_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
)

// run runs a command of an agent.
func (c *controller) run(ctx context.Context, path, name string) error {
	_, err := c.Exec(ctx, runtime.Launch{Path: path, Argv: []string{name}}, nil)
	return err
}

// wantRan fails the test unless the last commands of a node were these.
func wantRan(t *testing.T, n *node, want ...string) {
	t.Helper()
	if got := n.ran(); !slices.Equal(got, want) {
		t.Errorf("on %s ran %q, want %q", n.name, got, want)
	}
}

// Commands run where the agent is: before its start, while it runs and after its end.
func TestExec(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, a, b, x *node) {
		run := func(path, name string) {
			t.Helper()
			if err := c.run(t.Context(), path, name); err != nil {
				t.Error(err)
			}
		}
		run("here", "1")
		wantRan(t, a, "1")
		l := launch("x", 1)
		if err := c.Place(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		run("x", "waking")
		c.wants["x"] = placement.Want{Node: "c"} // it has its place already
		if _, err := c.Start(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		run("x", "start")
		if got := b.alive(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("on b: %v", got)
		}
		b.end("x", errCrashed)
		run("x", "death")
		wantRan(t, b, "waking", "start", "death")
		l = launch("x", 2)
		if err := c.Place(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		run("x", "waking")
		if _, err := c.Start(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		wantRan(t, x, "waking")
		wantRan(t, b)
		c.wants["x"] = placement.Want{Node: "b"}
		if err := c.Place(t.Context(), launch("x", 3)); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("elsewhere while it runs: %v", err)
		}
	})
}

// A command of an agent whose node is lost runs on the one that takes the agent then, or on none.
func TestExecLost(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, a, b, x *node) {
		c.start(t, "x", 1)
		running := make(chan error, 1)
		go func() { running <- c.run(t.Context(), "x", "wait") }()
		time.Sleep(time.Second)
		b.set(func(m *machine) { m.unreachable, m.dead = true, true })
		if err := c.run(t.Context(), "x", "early"); !errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("before the end of the lease: %v", err)
		}
		if err := <-running; !errors.Is(err, runtime.ErrNodeLost) || !strings.Contains(err.Error(), "may have run") {
			t.Error(err)
		}
		if err := c.run(t.Context(), "x", "error"); !errors.Is(err, runtime.ErrNoNode) ||
			!strings.Contains(err.Error(), "b is lost") {
			t.Error(err)
		}
		if len(c.homeless) != 0 {
			t.Errorf("without a node: %v", c.homeless)
		}
		c.wants["x"] = placement.Want{Node: "c"}
		if err := c.run(t.Context(), "x", "error"); err != nil {
			t.Error(err)
		}
		wantRan(t, a)
		wantRan(t, b, "wait")
		wantRan(t, x, "error")
		if place, _ := c.places.Of("x"); place.Node != "b" {
			t.Errorf("its place is on %s: it may still run on b", place.Node)
		}
	})
}

// An agent whose node is lost between its on_waking and its start is not started, and its failure is that of the node.
func TestPlacedOnLost(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, _, b, _ *node) {
		l := launch("x", 1)
		if err := c.Place(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		b.set(func(m *machine) { m.unreachable, m.dead = true, true })
		time.Sleep(ttl + grace + 3*time.Second)
		c.wants["x"] = placement.Want{}
		if _, err := c.Start(t.Context(), l); !errors.Is(err, runtime.ErrNodeLost) {
			t.Error(err)
		}
		c.start(t, "x", 2)
	})
}

// A node that has no lease runs no command, and gets no agents for a while.
func TestExecFenced(t *testing.T) {
	fleet(t, func(t *testing.T, s store.Store, c *controller, _, b, x *node) {
		c.start(t, "x", 1)
		known := b.held().Fence().Epoch
		if err := b.held().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.acquire(t, s)
		c.epochs.Store("b", known)
		if err := c.run(t.Context(), "x", "start"); !errors.Is(err, runtime.ErrFenced) {
			t.Error(err)
		}
		if c.places.IsTaken("x") {
			t.Error("b takes agents")
		}
		b.end("x", runtime.ErrDeadline)
		if err := c.run(t.Context(), "x", "death"); !errors.Is(err, runtime.ErrNoNode) {
			t.Error(err)
		}
		c.wants["x"] = placement.Want{Node: "c"}
		if err := c.run(t.Context(), "x", "death"); err != nil {
			t.Error(err)
		}
		wantRan(t, b)
		wantRan(t, x, "death")
	})
}
