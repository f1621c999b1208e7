// Package ledger keeps numbered things, such as messages and questions, in a
// store, so that who deals in them need not think about outcomes that are
// unknown. It holds all of them in memory, decides on that, and writes each
// decision as one step on condition that nothing has changed since.
package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Options are what a Ledger is made of. Logger may be nil.
type Options[T any] struct {
	Store  store.Store
	Prefix string // of the records; nothing else may be below it
	// Check says what is wrong with a thing that was read; nil: nothing is.
	Check func(n uint64, thing *T) error
	// Index is told of each change, in order: before is nil of what is new, now
	// of what is gone. It is called while the ledger is locked for all others.
	Index  func(n uint64, before, now *T)
	Logger *slog.Logger
}

// Ledger is the things below one prefix, by their numbers from 1. A number is
// never used twice. Its methods may be called by many goroutines at once.
type Ledger[T any] struct {
	o       Options[T]
	writing chan struct{} // holds a token while somebody decides and writes

	mu      sync.RWMutex
	entries map[uint64]entry[T]
	last    uint64    // the last number that was given
	lastRev store.Rev // of the record that says so
	stale   bool      // what is held may not be what is stored
	bad     map[string]bool
}

type entry[T any] struct {
	thing *T // never changed, only replaced
	rev   store.Rev
}

// maxNumber is what JSON carries without loss; no count comes that far.
const maxNumber = 1 << 53

// Open reads what there is. A record that cannot be read costs itself alone: it
// stays where it is, and the logger hears of it.
func Open[T any](ctx context.Context, o Options[T]) (*Ledger[T], error) {
	if err := store.CheckKey(o.Prefix); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := &Ledger[T]{o: o, writing: make(chan struct{}, 1), entries: make(map[uint64]entry[T]),
		bad: make(map[string]bool)}
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// View calls f while nothing changes. It must not call the ledger again, but Get.
func (l *Ledger[T]) View(f func()) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f()
}

// Get returns a thing, nil if there is none; only within View, Index and
// Update's function. The thing must not be changed.
func (l *Ledger[T]) Get(n uint64) *T { return l.entries[n].thing }

// Change is one step: what is added, replaced and removed together.
type Change[T any] struct {
	last uint64 // the last number that is given, with those of this step
	sets []set[T]
	also []store.Op
}

// set replaces a thing; nil removes it.
type set[T any] struct {
	n     uint64
	thing *T
}

// Add gives a thing the next number, which make is told.
func (c *Change[T]) Add(make func(n uint64) T) uint64 {
	c.last++
	c.Put(c.last, make(c.last))
	return c.last
}

// Put replaces a thing, Delete removes it. Each may be changed once.
func (c *Change[T]) Put(n uint64, thing T) { c.sets = append(c.sets, set[T]{n, &thing}) }
func (c *Change[T]) Delete(n uint64)       { c.sets = append(c.sets, set[T]{n, nil}) }

// Also adds ops on other keys to the step.
func (c *Change[T]) Also(ops ...store.Op) { c.also = append(c.also, ops...) }

// Update lets decide say what is to change and returns when that is durable. If
// the store turns out to be different from what decide was shown, it is asked
// again. An error of decide, and a change of nothing, write nothing. Errors are
// those of decide and of store.Apply: after ErrUnknown it may have been done, and
// the ledger looks before it decides anything else.
func (l *Ledger[T]) Update(ctx context.Context, decide func(*Change[T]) error) error {
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		if l.stale {
			if err := l.load(ctx); err != nil {
				return err
			}
		}
		c := &Change[T]{last: l.last}
		if err := decide(c); err != nil || len(c.sets) == 0 {
			return err
		}
		if c.last > maxNumber {
			return fmt.Errorf("%w: the numbers below %s are used up", store.ErrInvalid, l.o.Prefix)
		}
		conds, ops, err := l.ops(c)
		if err != nil {
			return err
		}
		revs, err := l.write(ctx, conds, ops)
		if err == nil {
			l.accept(c, revs)
			return nil
		}
		l.stale = errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrConflict)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

func (l *Ledger[T]) key(n uint64) string { return store.SequenceKey(l.o.Prefix, n) }
func (l *Ledger[T]) lastKey() string     { return l.o.Prefix + "-last" }

// ops are the step as the store takes it: each record under the condition that
// it is as it was.
func (l *Ledger[T]) ops(c *Change[T]) ([]store.Cond, []store.Op, error) {
	var conds []store.Cond
	var ops []store.Op
	for _, s := range c.sets {
		op := store.Op{Kind: store.Delete, Key: l.key(s.n)}
		if s.thing != nil {
			value, err := json.Marshal(s.thing)
			if err != nil {
				return nil, nil, fmt.Errorf("record %s: %w", op.Key, err)
			}
			op.Kind, op.Value = store.Put, value
		}
		conds, ops = append(conds, store.Cond{Key: op.Key, Rev: l.entries[s.n].rev}), append(ops, op)
	}
	if c.last > l.last {
		conds = append(conds, store.Cond{Key: l.lastKey(), Rev: l.lastRev})
		ops = append(ops, store.Op{Kind: store.Put, Key: l.lastKey(), Value: strconv.AppendUint(nil, c.last, 10)})
	}
	return conds, append(ops, c.also...), nil
}

const (
	minRetry = time.Millisecond // before a write is tried again
	maxRetry = 100 * time.Millisecond
)

// write applies a step until it is known whether it was done. It returns the
// revision that each of the conditions' keys has then.
func (l *Ledger[T]) write(ctx context.Context, conds []store.Cond, ops []store.Op) (map[string]store.Rev, error) {
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		rev, err := l.o.Store.Apply(ctx, store.Fence{}, conds, ops)
		if err == nil {
			revs := make(map[string]store.Rev, len(conds))
			for _, c := range conds {
				revs[c.Key] = rev
			}
			return revs, nil
		}
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		revs, untouched, lookErr := l.checkOutcome(ctx, conds, ops)
		switch {
		case lookErr != nil:
			return nil, fmt.Errorf("%w; looking whether it was done: %w", err, lookErr)
		case revs != nil:
			return revs, nil
		case !untouched:
			return nil, store.ErrConflict
		}
		// Not done, or not yet: the same once more cannot be done twice.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// checkOutcome finds out what became of a step: revs is not nil if the records are as
// it would have left them, untouched is true if they are as they were before.
func (l *Ledger[T]) checkOutcome(ctx context.Context, conds []store.Cond, ops []store.Op) (revs map[string]store.Rev,
	untouched bool, err error) {
	revs, untouched = make(map[string]store.Rev, len(conds)), true
	for i, c := range conds {
		have, err := store.Get(ctx, l.o.Store, c.Key)
		if err != nil {
			return nil, false, err
		}
		untouched = untouched && have.Rev == c.Rev
		done := have.Rev != c.Rev && bytes.Equal(have.Value, ops[i].Value) &&
			(ops[i].Kind == store.Delete) == (have.Rev == 0)
		if !done {
			revs = nil
		}
		if revs != nil {
			revs[c.Key] = have.Rev
		}
	}
	return revs, untouched, nil
}

// accept makes a step that was written part of what is held.
func (l *Ledger[T]) accept(c *Change[T], revs map[string]store.Rev) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.last > l.last {
		l.last, l.lastRev = c.last, revs[l.lastKey()]
	}
	for _, s := range c.sets {
		l.set(s.n, s.thing, revs[l.key(s.n)])
	}
}

// set replaces what is held of a number. The mutex is held.
func (l *Ledger[T]) set(n uint64, thing *T, rev store.Rev) {
	before := l.entries[n].thing
	if thing == nil {
		delete(l.entries, n)
	} else {
		l.entries[n] = entry[T]{thing, rev}
	}
	if l.o.Index != nil && (before != nil || thing != nil) {
		l.o.Index(n, before, thing)
	}
}

// load makes what is held what is stored.
func (l *Ledger[T]) load(ctx context.Context) error {
	// The record of the last number comes first: what is added after it was
	// read makes it conflict, and never a number come twice.
	last, err := store.Get(ctx, l.o.Store, l.lastKey())
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.lastKey(), err)
	}
	records, _, err := l.o.Store.Snapshot(ctx, l.o.Prefix)
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.o.Prefix, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastRev = last.Rev
	if n, err := strconv.ParseUint(string(last.Value), 10, 64); err == nil && n <= maxNumber {
		l.last = max(l.last, n)
	} else if last.Key != "" {
		l.logBadRecord(last.Key, fmt.Errorf("%.40q is no number", last.Value))
	}
	readable := make(map[uint64]bool, len(records))
	for _, r := range records {
		n, ok := store.ParseSequenceKey(l.o.Prefix, r.Key)
		if !ok || n == 0 || n > maxNumber {
			l.logBadRecord(r.Key, errors.New("its key is no number"))
			continue
		}
		l.last = max(l.last, n) // also of what cannot be read
		if e, held := l.entries[n]; !held || e.rev != r.Rev {
			thing, err := l.decode(n, r.Value)
			if err != nil {
				l.logBadRecord(r.Key, err)
				continue
			}
			l.set(n, thing, r.Rev)
		}
		readable[n] = true
	}
	for n := range l.entries {
		if !readable[n] {
			l.set(n, nil, 0)
		}
	}
	l.stale = false
	return nil
}

func (l *Ledger[T]) decode(n uint64, value []byte) (*T, error) {
	thing := new(T)
	if err := json.Unmarshal(value, thing); err != nil {
		return nil, err
	}
	if l.o.Check != nil {
		if err := l.o.Check(n, thing); err != nil {
			return nil, err
		}
	}
	return thing, nil
}

// logBadRecord tells of a bad record, once.
func (l *Ledger[T]) logBadRecord(key string, err error) {
	if !l.bad[key] {
		l.bad[key] = true
		l.o.Logger.Warn("a record cannot be read and is left alone", "key", key, "error", err)
	}
}
