package fenced_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/fenced"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Once the lease is lost, nothing is written; the store itself goes on.
func TestLost(t *testing.T) {
	s := memory.New()
	defer s.Close()
	l, err := s.Acquire(t.Context(), "controller", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	f := fenced.New(s, l.Fence())
	put := func(s store.Store, fence store.Fence, key string) error {
		_, err := s.Apply(t.Context(), fence, nil, []store.Op{{Kind: store.Put, Key: key, Value: []byte("v")}})
		return err
	}
	if err := put(f, store.Fence{}, "before"); err != nil {
		t.Error(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := f.Acquire(t.Context(), "other", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(f, store.Fence{}, "after"); !errors.Is(err, store.ErrFenced) {
		t.Error(err)
	}
	if err := put(f, other.Fence(), "own fence"); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := put(s, store.Fence{}, "below"); err != nil {
		t.Error(err)
	}
	all, _, err := f.Snapshot(t.Context(), "")
	if err != nil || len(all) != 3 {
		t.Error(all, err)
	}
}
