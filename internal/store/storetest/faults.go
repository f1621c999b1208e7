package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Rates are the probabilities of faults, each from 0 (never) to 1 (always).
type Rates struct {
	Unknown  float64       // writes end with ErrUnknown; half of them were done
	Conflict float64       // writes with conditions end with ErrConflict although all of them hold
	Repeat   float64       // changes are repeated, after newer ones
	Late     float64       // changes are delayed
	Cut      float64       // exports end early with ErrCut, before an entry or after the last one
	MaxDelay time.Duration // maximum delay; 50 ms if zero
}

// AllFaults injects every kind of fault of the interface store.Store.
var AllFaults = Rates{Unknown: 0.2, Conflict: 0.2, Repeat: 0.2, Late: 0.2}

// Counts are the numbers of injected faults, for a test to check that faults occurred.
type Counts struct {
	UnknownDone, UnknownNotDone, Conflicts, Repeated, Late, Failed, Cut int
}

// Faults is a store with the faults that the interface allows to a networked store. Acknowledged
// changes have always been made.
type Faults struct {
	store.Store
	rates Rates

	mu     sync.Mutex
	random *rand.Rand
	counts Counts
	fail   error
}

// Writes returns what the wrapped store has counted.
func (f *Faults) Writes() store.Writes { return store.WritesOf(f.Store) }

// NewFaults wraps a store. The same seed and the same calls in the same order give the same faults.
func NewFaults(s store.Store, seed uint64, rates Rates) *Faults {
	if rates.MaxDelay == 0 {
		rates.MaxDelay = 50 * time.Millisecond
	}
	return &Faults{Store: s, rates: rates, random: rand.New(rand.NewPCG(seed, seed))}
}

// Fail makes all writes fail with err and do nothing, until Fail(nil): a full
// disk is Fail(store.ErrFull).
func (f *Faults) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

// Counts returns the numbers of faults so far.
func (f *Faults) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// hit decides whether a fault of that rate occurs now, and counts it.
func (f *Faults) hit(rate float64, count *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.Float64() >= rate {
		return false
	}
	*count++
	return true
}

func (f *Faults) failing() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		return nil
	}
	f.counts.Failed++
	return fmt.Errorf("fault: %w", f.fail)
}

// Apply implements store.Store, with unknown outcomes, false conflicts and Fail.
func (f *Faults) Apply(ctx context.Context, fence store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if err := f.failing(); err != nil {
		return 0, err
	}
	if len(conds) > 0 && f.hit(f.rates.Conflict, &f.counts.Conflicts) {
		return 0, fmt.Errorf("fault: %w", store.ErrConflict)
	}
	if f.hit(f.rates.Unknown/2, &f.counts.UnknownNotDone) {
		return 0, fmt.Errorf("fault: %w", store.ErrUnknown)
	}
	rev, err := f.Store.Apply(ctx, fence, conds, ops)
	if err == nil && f.hit(f.rates.Unknown/2, &f.counts.UnknownDone) {
		return 0, fmt.Errorf("fault: %w", store.ErrUnknown)
	}
	return rev, err
}

// Acquire implements store.Store, with unknown outcomes: a lease may have no holder until its ttl
// is over.
func (f *Faults) Acquire(ctx context.Context, name string, ttl time.Duration) (store.Lease, error) {
	if err := f.failing(); err != nil {
		return nil, err
	}
	if f.hit(f.rates.Unknown/2, &f.counts.UnknownNotDone) {
		return nil, fmt.Errorf("fault: %w", store.ErrUnknown)
	}
	l, err := f.Store.Acquire(ctx, name, ttl)
	if err == nil && f.hit(f.rates.Unknown/2, &f.counts.UnknownDone) {
		return nil, fmt.Errorf("fault: %w", store.ErrUnknown)
	}
	return l, err
}

// Resume implements store.Store, with unknown outcomes.
func (f *Faults) Resume(ctx context.Context, fence store.Fence, ttl time.Duration) (store.Lease, error) {
	if err := f.failing(); err != nil {
		return nil, err
	}
	if f.hit(f.rates.Unknown, &f.counts.UnknownNotDone) {
		return nil, fmt.Errorf("fault: %w", store.ErrUnknown)
	}
	return f.Store.Resume(ctx, fence, ttl)
}

// ErrCut is the error of an export that was cut.
var ErrCut = errors.New("fault: the connection was cut")

// Export implements store.Exporter, with ErrCut. The wrapped store must implement it, too.
func (f *Faults) Export(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range f.Store.(store.Exporter).Export(ctx) {
			if f.hit(f.rates.Cut, &f.counts.Cut) {
				yield(store.Entry{}, ErrCut)
				return
			}
			if !yield(e, err) {
				return
			}
		}
		if f.hit(f.rates.Cut, &f.counts.Cut) {
			yield(store.Entry{}, ErrCut)
		}
	}
}

// Import implements store.Importer, with unknown outcomes and Fail. The wrapped store must implement
// it, too.
func (f *Faults) Import(ctx context.Context, entries iter.Seq2[store.Entry, error]) error {
	if err := f.failing(); err != nil {
		return err
	}
	if f.hit(f.rates.Unknown/2, &f.counts.UnknownNotDone) {
		return fmt.Errorf("fault: %w", store.ErrUnknown)
	}
	err := f.Store.(store.Importer).Import(ctx, entries)
	if err == nil && f.hit(f.rates.Unknown/2, &f.counts.UnknownDone) {
		return fmt.Errorf("fault: %w", store.ErrUnknown)
	}
	return err
}

// Watch implements store.Store, with late and repeated changes. It omits none.
func (f *Faults) Watch(ctx context.Context, prefix string, from store.Rev) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		var recent []store.Change
		for c, err := range f.Store.Watch(ctx, prefix, from) {
			if err != nil {
				yield(c, err)
				return
			}
			if f.hit(f.rates.Late, &f.counts.Late) {
				select {
				case <-time.After(f.delay()):
				case <-ctx.Done():
				}
			}
			if !yield(c, nil) {
				return
			}
			recent = append(recent[max(0, len(recent)-7):], c)
			if f.hit(f.rates.Repeat, &f.counts.Repeated) {
				// Repeat all changes from some point on, as after a reconnection.
				for _, old := range recent[f.below(len(recent)):] {
					if !yield(old, nil) {
						return
					}
				}
			}
		}
	}
}

func (f *Faults) delay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(f.rates.MaxDelay)) + 1)
}

func (f *Faults) below(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}
