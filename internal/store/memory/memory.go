// Package memory implements a store in memory, which ends with the process. Tests use it, and
// trees that keep no state.
package memory

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/local"
)

// Store is a store.Store in memory.
type Store struct {
	history *local.History
	leases  *local.Leases
	meter   store.Meter

	mu        sync.RWMutex
	records   []store.Record // sorted by key
	sequences map[string]uint64
	rev       store.Rev
	epoch     uint64
	closed    bool
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		history:   local.NewHistory(0),
		leases:    local.NewLeases(),
		sequences: map[string]uint64{},
	}
}

// Writes returns what was written.
func (s *Store) Writes() store.Writes { return s.meter.Writes() }

// Apply implements store.Store. It never returns ErrUnknown, ErrFull or ErrReadOnly.
func (s *Store) Apply(ctx context.Context, fence store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if err := store.CheckApply(store.MaxOps, conds, ops); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, store.ErrClosed
	}
	if err := s.leases.Check(fence); err != nil {
		return 0, err
	}
	b := local.NewBatch(base{s}, s.rev)
	rev, err := b.Apply(conds, ops)
	if err != nil {
		return 0, err
	}
	for key, p := range b.Records {
		i, found := s.find(key)
		switch r := (store.Record{Key: key, Value: p.Value, Rev: p.Rev}); {
		case p.Deleted:
			s.records = slices.Delete(s.records, i, i+1)
		case found:
			s.records[i] = r
		default:
			s.records = slices.Insert(s.records, i, r)
		}
	}
	maps.Copy(s.sequences, b.Sequences)
	s.rev = b.Rev()
	s.history.Publish(b.Changes)
	s.meter.Count(ops)
	return rev, nil
}

// base reads the store while its mutex is held.
type base struct{ *Store }

func (b base) Rev(key string) (store.Rev, error) {
	if i, found := b.find(key); found {
		return b.records[i].Rev, nil
	}
	return 0, nil
}

func (b base) Sequence(prefix string) (uint64, error) { return b.sequences[prefix], nil }

func (s *Store) find(key string) (int, bool) {
	return slices.BinarySearchFunc(s.records, key,
		func(r store.Record, key string) int { return strings.Compare(r.Key, key) })
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, prefix string) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, "", 0, 0)
}

// Scan implements store.Store.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, after, limit, store.MaxPage)
}

func (s *Store) read(ctx context.Context, prefix, after string, limit, maxBytes int) ([]store.Record, store.Rev,
	error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, 0, err
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, 0, store.ErrClosed
	}
	var page []store.Record
	bytes := 0
	i, _ := s.find(max(prefix, after))
	for ; i < len(s.records) && strings.HasPrefix(s.records[i].Key, prefix); i++ {
		r := s.records[i]
		if !store.Under(prefix, r.Key) || r.Key <= after && after != "" {
			continue
		}
		bytes += len(r.Value)
		if limit > 0 && len(page) == limit || maxBytes > 0 && len(page) > 0 && bytes > maxBytes {
			break
		}
		page = append(page, r)
	}
	return page, s.rev, nil
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, from store.Rev) iter.Seq2[store.Change, error] {
	return s.history.Watch(ctx, prefix, from)
}

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, name string, ttl time.Duration) (store.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.leases.Acquire(name, ttl, func() (uint64, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.epoch++
		return s.epoch, nil
	})
}

// Resume implements store.Store.
func (s *Store) Resume(ctx context.Context, f store.Fence, ttl time.Duration) (store.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.leases.Resume(f, ttl)
}

// Close implements store.Store and drops all records.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.records = nil
	s.mu.Unlock()
	s.leases.Close()
	s.history.Close()
	return nil
}
