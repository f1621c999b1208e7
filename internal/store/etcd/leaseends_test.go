package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// A store tells which lease was released or has expired, also when the member that it has asked first is killed.
func TestFollowLeases(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s, other := mustOpen(t, c.URL("coppice")), mustOpen(t, c.URL("coppice"))
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- s.FollowLeases(ctx, func(name string) { told <- name })
	}()
	hold := func(name string) store.Lease {
		l, err := other.Acquire(t.Context(), name, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	// await looks each time that something was told of the lease, and at no other time.
	await := func(l store.Lease) {
		t.Helper()
		late := time.After(30 * time.Second)
		for {
			select {
			case name := <-told:
				if name != "" && name != l.Fence().Lease {
					continue
				}
			case <-late:
				t.Fatalf("nothing tells that lease %s has ended", l.Fence().Lease)
			}
			_, err := s.Apply(t.Context(), l.Fence(), nil, nil)
			if errors.Is(err, store.ErrFenced) {
				return
			}
			if err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Fatal(err)
			}
		}
	}
	released := hold("a/b")
	if err := released.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(released)
	await(hold("expires"))
	for i := range 3 {
		l := hold("of a lost member")
		c.Kill(i)
		await(l)
		c.Restart(i)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
