// Package fenced ties all writes to a store to a lease: once that is lost, none is done.
package fenced

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Store is a store whose writes are done only while a lease is held. Leases, and writes with a fence of their own, are
// not affected. Closing it leaves the store below open.
type Store struct {
	store.Store
	fence store.Fence
}

// New returns a store with a fence.
func New(s store.Store, fence store.Fence) *Store { return &Store{s, fence} }

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, fence store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if fence == (store.Fence{}) {
		fence = s.fence
	}
	return s.Store.Apply(ctx, fence, conds, ops)
}

// Close implements store.Store.
func (s *Store) Close() error { return nil }

// MaxOps returns how many operations an Apply may have; see store.MaxOpsOf.
func (s *Store) MaxOps() int { return store.MaxOpsOf(s.Store) }

// String returns where the store is, for people.
func (s *Store) String() string {
	if at, ok := s.Store.(fmt.Stringer); ok {
		return at.String()
	}
	return ""
}

// ID returns the ID of the history of the store.
func (s *Store) ID() string {
	if named, ok := s.Store.(interface{ ID() string }); ok {
		return named.ID()
	}
	return ""
}

// Writes returns what was written to the store below; see store.WritesOf.
func (s *Store) Writes() store.Writes { return store.WritesOf(s.Store) }

// OnCommit has a function called with the time that each write has taken, if the store can tell.
func (s *Store) OnCommit(f func(took time.Duration)) {
	if timed, ok := s.Store.(interface {
		OnCommit(func(took time.Duration))
	}); ok {
		timed.OnCommit(f)
	}
}
