package placing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// telling is a store that tells when leases end: that is when their names come from ends.
type telling struct {
	store.Store
	ends chan string
}

func (s telling) FollowLeases(ctx context.Context, changed func(string)) error {
	for {
		select {
		case name := <-s.ends:
			changed(name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A node is lost as soon as the store tells that its lease has ended, and soon enough when it tells nothing.
func TestLostNodeIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		tells bool
		tell  []string
		most  time.Duration
	}{
		"told":           {true, []string{registry.LeaseOf("b")}, 0},
		"told of any":    {true, []string{""}, 0},
		"told of others": {true, []string{registry.LeaseOf("a"), "controller"}, 5 * time.Second},
		"not told":       {true, nil, 5 * time.Second},
		"cannot tell":    {false, nil, time.Second / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New()
			defer inner.Close()
			ends := make(chan string)
			s := store.Store(inner)
			if c.tells {
				s = telling{inner, ends}
			}
			a, b := newNode(t, s, "a"), newNode(t, s, "b")
			on := lead(t, s, a, b)
			defer func() { on.end() }()
			on.wants["x"] = placement.Want{Node: "b"}
			if _, err := on.Start(t.Context(), launch("x", 1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := b.held().Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			for _, name := range c.tell {
				ends <- name
			}
			for synctest.Wait(); !on.hasLost("b"); synctest.Wait() {
				if time.Sleep(10 * time.Millisecond); time.Since(begun) > c.most {
					t.Fatalf("%s: it is not lost after %v", name, time.Since(begun))
				}
			}
		})
	}
}

// A controller counts from the time at which its node knew that a lease had ended, which was before it began.
func TestNextControllerCountsFromTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b, c := newNode(t, s, "a"), newNode(t, s, "b"), newNode(t, s, "c")
		on := lead(t, s, a, b, c)
		on.wants["x"] = placement.Want{Node: "b"}
		if _, err := on.Start(t.Context(), launch("x", 1)); err != nil {
			t.Fatal(err)
		}
		on.end()
		if err := b.held().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		known := leases.New(s, nil)
		known.Look(t.Context(), []leases.Lease{{Node: "b", Epoch: b.held().Fence().Epoch}})
		begun := time.Now()
		b.set(func(m *machine) { m.unreachable = true })
		time.Sleep(grace) // of the agent, and 1 s is left
		next := leadKnowing(t, s, known, c, a, b)
		defer func() { next.end() }()
		if !next.hasLost("b") {
			t.Error("nothing says that b is lost")
		}
		session, err := next.Adopt(t.Context(), "x")
		if err != nil || session.Observe().Life != runtime.Dead {
			t.Fatalf("%v, %v", session, err)
		}
		if took := time.Since(begun); took != grace+time.Second {
			t.Errorf("its agent has ended after %v", took)
		}
	})
}
