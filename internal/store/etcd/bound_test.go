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

// However many calls of Apply there are, they share a bounded number of writers, and all are done in the end.
func TestWritesAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, etcdtest.Start(t, etcdtest.Options{Members: 1}))
	held := takeAll(t, s)
	var writing sync.WaitGroup
	for i := range 4 * maxWriters {
		writing.Go(func() {
			op := store.Op{Kind: store.Put, Key: fmt.Sprint("k", i), Value: []byte("v")}
			if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{op}); err != nil {
				t.Error(err)
			}
		})
	}
	s.writers.put(held[0])
	writing.Wait()
	if n := len(s.writers.idle); n != 1 {
		t.Errorf("%d writers were used next to %d that are in use, of at most %d", n, maxWriters-1, maxWriters)
	}
	for _, w := range held[1:] {
		s.writers.put(w)
	}
	if w := s.Writes(); w.AtOnce != maxWriters || w.Transactions != 4*maxWriters {
		t.Errorf("%+v", w)
	}
}

// takeAll takes all writers of a store. The caller gives them back.
func takeAll(t *testing.T, s *Store) (all []*writer) {
	t.Helper()
	for range maxWriters {
		w, err := s.writers.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

// Leases, and checks of them, do not wait for writes.
func TestLeasesDoNotWait(t *testing.T) {
	t.Parallel()
	s := start(t, etcdtest.Start(t, etcdtest.Options{Members: 1}))
	for _, w := range takeAll(t, s) {
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
