package node

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A node that ends its agents holds and renews its lease until they have ended. That does not give them time again, and
// the next lease does.
func TestRenewedWhileLeaving(t *testing.T) {
	for _, lost := range []bool{false, true} {
		s := memory.New()
		t.Cleanup(func() { s.Close() })
		file := filepath.Join(t.TempDir(), "deadline")
		until, err := deadline.NewWriter(file)
		if err != nil {
			t.Fatal(err)
		}
		n := &Node{o: Options{Name: "n1", TTL: time.Minute, Logger: slog.New(slog.DiscardHandler)}, until: until}
		renew := func(l store.Lease, over bool) {
			t.Helper()
			n.asking()
			n.renewed(l)
			if err := deadline.Check(file); errors.Is(err, runtime.ErrFenced) != over || err != nil && !over {
				t.Errorf("the lease was lost: %v, the deadline: %v", lost, err)
			}
		}
		acquire := func() store.Lease {
			t.Helper()
			l, err := s.Acquire(t.Context(), registry.LeaseOf("n1"), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first := acquire()
		renew(first, false)
		watched := make(chan error, 1)
		w := deadline.Watch(file, func(_ deadline.Instant, why error) { watched <- why })
		t.Cleanup(w.Close)
		if err := n.expire(first.Fence(), lost); err != nil {
			t.Fatal(err)
		}
		renew(first, true)
		w.Check()
		why := <-watched
		if !errors.Is(why, runtime.ErrDeadline) || lost == strings.Contains(why.Error(), "node n1 has left") {
			t.Errorf("the lease was lost: %v, its agents are ended because of: %v", lost, why)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		renew(acquire(), false)
	}
}
