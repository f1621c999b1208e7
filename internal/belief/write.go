package belief

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// write is one atomic write and its effect on the memory. Each op has a condition on the revision
// that it replaces, so repeating the write is safe: at most one attempt takes effect, even a late
// one.
type write struct {
	conds   []store.Cond
	ops     []store.Op
	effects []effect
}

// effect is the entry after an op; nil if the op removes it.
type effect struct {
	in    *records
	name  string
	entry *entry
}

// put adds the write of a record.
func (w *write) put(in *records, name string, record []byte, e *entry) {
	w.ops = append(w.ops, store.Op{Kind: store.Put, Key: w.replace(in, name, e), Value: record})
}

// remove adds the removal of a record.
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

// Attempts while the outcome of a write is unknown, and the pauses between them.
const (
	attempts  = 12
	firstWait = time.Millisecond
	lastWait  = 200 * time.Millisecond
)

// errChangedElsewhere means that something else has changed the records, such as a replacement of
// the store's files. They were read again.
var errChangedElsewhere = errors.New("the beliefs were changed by another program")

// commit performs a write and updates the memory. The caller holds the write lock. After ErrUnknown
// the outcome is unknown, and resolvePending has to be called before anything else.
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
			// The conflict was spurious.
		case !unknown:
			return err // and nothing was written
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

// outcome is the state of a write's first record, which tells whether the write was done.
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
		// After a delete, the revision is that of another record of the write.
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

// read reads one record.
func (b *Store) read(ctx context.Context, key string) (store.Record, bool, error) {
	page, _, err := b.store.Scan(ctx, key, "", 1)
	if err != nil || len(page) == 0 || page[0].Key != key {
		return store.Record{}, false, err
	}
	return page[0], true, nil
}

// markDone updates the memory after a write.
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

// dropPending drops a pending write that can no longer take effect.
func (b *Store) dropPending(a *agent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending, a.unknown = nil, false
}

// reload reads the records of an agent again and returns errChangedElsewhere.
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

// resolvePending completes a write whose outcome is unknown, and an unfinished import. The caller
// holds the write lock.
func (b *Store) resolvePending(ctx context.Context, a *agent) error {
	if a.pending != nil {
		if err := b.commit(ctx, a, a.pending); err != nil && !errors.Is(err, errChangedElsewhere) {
			return fmt.Errorf("the outcome of the last write of %s is not known yet: %w", a.path, err)
		}
	}
	return b.finish(ctx, a)
}
