// Package ledger keeps numbered records, such as messages and questions, in a store, and handles
// writes whose outcome is unknown. It holds all records in memory, decides from that copy, and
// writes each decision as one step, on the condition that nothing has changed since.
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

// Options configure a Ledger. Only Store and Prefix are required.
type Options[T any] struct {
	Store  store.Store
	Prefix string // of the records; the ledger owns all keys below it
	// Check returns what is wrong with a record that was read; nil accepts all records.
	Check func(n uint64, thing *T) error
	// Index is called for each change, in order. before is nil for a new record, and now is nil
	// for a deleted one. The ledger is locked during the call.
	Index  func(n uint64, before, now *T)
	Logger *slog.Logger
}

// Ledger holds the records below one prefix, numbered from 1. A number is never reused. All
// methods are safe for concurrent use.
type Ledger[T any] struct {
	o       Options[T]
	writing chan struct{} // holds a token during an Update

	mu      sync.RWMutex
	entries map[uint64]entry[T]
	last    uint64    // the last number assigned
	lastRev store.Rev // of the record that stores last
	stale   bool      // entries may differ from the store
	bad     map[string]bool
}

type entry[T any] struct {
	thing *T // never changed, only replaced
	rev   store.Rev
}

// maxNumber is the largest integer that JSON carries without loss.
const maxNumber = 1 << 53

// Open reads the stored records. A record that cannot be read is logged and left in the store,
// and does not affect the others.
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

// View calls f while nothing changes. Of the methods of the ledger, f may only call Get.
func (l *Ledger[T]) View(f func()) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f()
}

// Get returns a record, or nil if there is none. It may be called only within View, Index and the
// function passed to Update. The record must not be modified.
func (l *Ledger[T]) Get(n uint64) *T { return l.entries[n].thing }

// Change is one step: the records to add, replace and delete together.
type Change[T any] struct {
	last uint64 // the last number assigned, including this step
	sets []set[T]
	also []store.Op
}

// set replaces a record; a nil thing deletes it.
type set[T any] struct {
	n     uint64
	thing *T
}

// Add adds a record under the next number, which is passed to make.
func (c *Change[T]) Add(make func(n uint64) T) uint64 {
	c.last++
	c.Put(c.last, make(c.last))
	return c.last
}

// Put replaces a record, Delete deletes it. Each record may be changed only once.
func (c *Change[T]) Put(n uint64, thing T) { c.sets = append(c.sets, set[T]{n, &thing}) }
func (c *Change[T]) Delete(n uint64)       { c.sets = append(c.sets, set[T]{n, nil}) }

// Also adds ops on other keys to the step.
func (c *Change[T]) Also(ops ...store.Op) { c.also = append(c.also, ops...) }

// Update calls decide to fill in a Change and returns when the change is durable. If the store
// turns out to differ from the ledger's copy, decide is called again. If decide returns an error
// or changes nothing, nothing is written. Update returns the errors of decide and of store.Apply.
// After ErrUnknown the change may have been made; the next Update reads the store first.
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

// ops translates a step for the store. Each record has the condition that it is unchanged.
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
	minRetry = time.Millisecond // delay before a write is repeated, doubled each time
	maxRetry = 100 * time.Millisecond
)

// write applies a step until its outcome is known. It returns the resulting revision of the key
// of each condition.
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
		// Not done, or not yet: because of the conditions, a repetition cannot be done twice.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// checkOutcome determines whether a step was done. revs is not nil if the records are as the step
// would have left them; untouched is true if they are as they were before it.
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

// accept applies a step that was written to the copy in memory.
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

// set replaces an entry in memory. Needs mu.
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

// load makes the copy in memory equal to the store.
func (l *Ledger[T]) load(ctx context.Context) error {
	// The last number is read first: a record that is added after this read makes the next
	// write conflict, so a number is never assigned twice.
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
		l.last = max(l.last, n) // also for records that cannot be read
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

// logBadRecord logs a record that cannot be read, once.
func (l *Ledger[T]) logBadRecord(key string, err error) {
	if !l.bad[key] {
		l.bad[key] = true
		l.o.Logger.Warn("a record cannot be read and is left alone", "key", key, "error", err)
	}
}
