package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// However many calls of Apply there are, only some are under way at the same time, and all are done in the end.
func TestWritesAtOnce(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	s := start(t, c)
	c.Pause(0)
	var writing sync.WaitGroup
	for i := range 4 * maxWriters {
		writing.Go(func() {
			op := store.Op{Kind: store.Put, Key: fmt.Sprint("k", i), Value: []byte("v")}
			if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{op}); err != nil {
				t.Error(err)
			}
		})
	}
	for late := time.Now().Add(attemptTime); len(s.writers.slots) < maxWriters; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d calls are under way, want %d", len(s.writers.slots), maxWriters)
		}
	}
	c.Continue(0)
	writing.Wait()
	if w := s.Writes(); w.AtOnce != maxWriters || w.Transactions != 4*maxWriters {
		t.Errorf("%+v", w)
	}
	if n := len(s.writers.idle); n > maxWriters {
		t.Errorf("%d writers for at most %d calls", n, maxWriters)
	}
}

// Leases, and checks of them, do not wait for writes.
func TestLeasesDoNotWait(t *testing.T) {
	t.Parallel()
	s := start(t, etcdtest.Start(t, etcdtest.Options{Members: 1}))
	for range maxWriters {
		w, err := s.writers.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.writers.put(w)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	le, err := s.Acquire(ctx, "nodes/a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := le.Renew(ctx); err != nil {
		t.Error(err)
	}
	rev, err := s.Apply(ctx, le.Fence(), nil, nil)
	if now, e := s.conn.current(ctx); err != nil || e != nil || int64(rev) != now {
		t.Errorf("a check: %d, %v, the revision is %d, %v", rev, err, now, e)
	}
	le, err = s.Resume(ctx, le.Fence(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := le.Release(ctx); err != nil {
		t.Error(err)
	}
	if _, err := s.Apply(ctx, le.Fence(), nil, nil); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a check of a lease that was released: %v", err)
	}
	var conflict *store.ConflictError
	if _, err := s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "k", Rev: 5}}, nil); !errors.As(err, &conflict) {
		t.Errorf("a check of a record: %v", err)
	}
	full, end := context.WithTimeout(ctx, 20*time.Millisecond)
	defer end()
	put := []store.Op{{Kind: store.Put, Key: "k", Value: []byte("v")}}
	if _, err := s.Apply(full, store.Fence{}, nil, put); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write that should wait: %v", err)
	}
}
