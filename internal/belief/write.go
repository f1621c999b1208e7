package belief

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// write is one Apply and what it does to the projection. Each op has a
// condition on the revision that it replaces, so that doing it again is safe:
// of all attempts one takes effect at most, also of one that comes late.
type write struct {
	conds   []store.Cond
	ops     []store.Op
	effects []effect
}

// effect is the entry that an op leaves; nil if it removes it.
type effect struct {
	in    *records
	name  string
	entry *entry
}

// put adds a record to the write.
func (w *write) put(in *records, name string, record []byte, e *entry) {
	w.ops = append(w.ops, store.Op{Kind: store.Put, Key: w.replace(in, name, e), Value: record})
}

// remove adds the end of a record to the write.
func (w *write) remove(in *records, name string) {
	w.ops = append(w.ops, store.Op{Kind: store.Delete, Key: w.replace(in, name, nil)})
}

func (w *write) replace(in *records, name string, e *entry) (key string) {
	c := store.Cond{Key: in.key(name)}
	if old := in.entries[name]; old != nil {
		c.Rev = old.rev
	}
	w.conds = append(w.conds, c)
	w.effects = append(w.effects, effect{in, name, e})
	return c.Key
}

// Pace of attempts where the outcome is unknown.
const (
	attempts  = 12
	firstWait = time.Millisecond
	lastWait  = 200 * time.Millisecond
)

// errChangedElsewhere: somebody else has changed the records, as when the files of the
// store were replaced. The projection was read again.
var errChangedElsewhere = errors.New("the beliefs were changed by another program")

// commit performs a write and makes the projection agree. The caller has the
// writeLock. When it returns ErrUnknown, nothing is known of the write, and the
// agent has to be settled before anything else is done.
func (b *Store) commit(ctx context.Context, a *agent, w *write) error {
	if len(w.ops) == 0 {
		return nil
	}
	unknown := a.pending == w
	wait := firstWait
	for n := 1; ; n++ {
		rev, err := b.store.Apply(ctx, store.Fence{}, w.conds, w.ops)
		if err == nil {
			b.markDone(a, w, rev)
			return nil
		}
		switch {
		case errors.Is(err, store.ErrUnknown):
			unknown = true
		case errors.Is(err, store.ErrConflict):
			found, e := b.outcome(ctx, w)
			switch {
			case e != nil:
				err = e
			case found.done && unknown:
				b.markDone(a, w, found.rev)
				return nil
			case !found.asBefore:
				b.dropPending(a)
				return b.reload(ctx, a)
			}
			// The store was wrong about the conflict.
		case !unknown:
			return err // and nothing was done
		}
		if n == attempts || !pause(ctx, wait) {
			if !unknown {
				return err
			}
			a.mu.Lock()
			a.pending, a.unknown = w, true
			a.mu.Unlock()
			return fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
		wait = min(2*wait, lastWait)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// outcome is what the store says of a write's first record, which tells of all.
type outcome struct {
	asBefore bool // the write has not been done
	done     bool
	rev      store.Rev
}

func (b *Store) outcome(ctx context.Context, w *write) (outcome, error) {
	r, ok, err := b.read(ctx, w.ops[0].Key)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{asBefore: r.Rev == w.conds[0].Rev, rev: r.Rev}
	if w.ops[0].Kind == store.Put {
		o.done = !o.asBefore && ok && string(r.Value) == string(w.ops[0].Value)
	} else {
		o.done = !o.asBefore && !ok
	}
	if o.done && !ok {
		// Of the others the revision is known only to the store; deletes need none.
		for _, op := range w.ops {
			if op.Kind == store.Put {
				p, _, err := b.read(ctx, op.Key)
				if err != nil {
					return outcome{}, err
				}
				o.rev = p.Rev
				break
			}
		}
	}
	return o, nil
}

// read reads one record; the zero one if there is none.
func (b *Store) read(ctx context.Context, key string) (store.Record, bool, error) {
	page, _, err := b.store.Scan(ctx, key, "", 1)
	if err != nil || len(page) == 0 || page[0].Key != key {
		return store.Record{}, false, err
	}
	return page[0], true, nil
}

// markDone makes the projection agree with a write that was done.
func (b *Store) markDone(a *agent, w *write, rev store.Rev) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range w.effects {
		if e.entry != nil {
			e.entry.rev = rev
		}
		e.in.put(e.name, e.entry)
	}
	a.pending, a.unknown = nil, len(a.imports.entries) > 0
}

// dropPending gives up a pending write that can no longer have an effect.
func (b *Store) dropPending(a *agent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending, a.unknown = nil, false
}

// reload reads the records of an agent again and returns errForeign.
func (b *Store) reload(ctx context.Context, a *agent) error {
	for _, into := range a.parts() {
		fresh := newRecords(into.prefix, a.path)
		for r, err := range store.All(ctx, b.store, into.prefix+"/"+a.path) {
			if err != nil {
				return fmt.Errorf("reading the beliefs of %s: %w", a.path, err)
			}
			if path, name, ok := parseKey(into.prefix, r.Key); ok && path == a.path {
				fresh.put(name, decode(r))
			}
		}
		a.mu.Lock()
		*into = fresh
		a.mu.Unlock()
	}
	return errChangedElsewhere
}

// resolvePending finds out what became of a write whose outcome was not known, by
// doing it if it was not done. The caller has the turn.
func (b *Store) resolvePending(ctx context.Context, a *agent) error {
	if a.pending != nil {
		if err := b.commit(ctx, a, a.pending); err != nil && !errors.Is(err, errChangedElsewhere) {
			return fmt.Errorf("the outcome of the last write of %s is not known yet: %w", a.path, err)
		}
	}
	return b.finish(ctx, a)
}
