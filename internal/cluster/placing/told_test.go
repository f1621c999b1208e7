package placing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// telling is a store that tells when leases end: that is when something comes from ends, until it is closed.
type telling struct {
	store.Store
	ends chan struct{}
}

func (s telling) FollowLeases(ctx context.Context, changed func()) error {
	for {
		select {
		case _, ok := <-s.ends:
			if !ok {
				return store.ErrClosed
			}
			changed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A node is lost as soon as the store tells that its lease has ended, and soon enough when it tells nothing.
func TestLostNodeIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(ends chan struct{})
		most time.Duration
	}{
		"told":              {func(ends chan struct{}) { ends <- struct{}{} }, 0},
		"not told":          {func(chan struct{}) {}, 5 * time.Second},
		"nothing more told": {func(ends chan struct{}) { close(ends) }, time.Second / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := telling{memory.New(), make(chan struct{})}
			defer s.Close()
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
			c.tell(s.ends)
			for synctest.Wait(); !on.hasLost("b"); synctest.Wait() {
				if time.Sleep(10 * time.Millisecond); time.Since(begun) > c.most {
					t.Fatalf("%s: it is not lost after %v", name, time.Since(begun))
				}
			}
		})
	}
}
