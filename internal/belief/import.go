package belief

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/value"
)

// Export returns the stored persistent beliefs of an agent, and the names of records that cannot be
// read.
func (b *Store) Export(ctx context.Context, path string) (value.Named, []string, error) {
	a := b.find(path)
	if a == nil {
		return nil, nil, fmt.Errorf("%w: there is no agent %s", ErrNotFound, spec.Quote(path))
	}
	if err := a.lock(ctx); err != nil {
		return nil, nil, err
	}
	defer a.unlock()
	if err := b.resolvePending(ctx, a); err != nil {
		return nil, nil, err
	}
	all, unreadable := value.Named{}, []string{}
	for _, name := range a.stored.names() {
		switch e := a.stored.entries[name]; {
		case e.damage != "":
			unreadable = append(unreadable, name)
		case e.Transient:
		case e.value != "":
			all[name] = e.value
		default:
			v, err := b.readValue(ctx, a, name)
			if err != nil {
				return nil, nil, err
			}
			all[name] = v
		}
	}
	return all, unreadable, nil
}

// readValue reads a value that is not in memory. The caller holds the write lock.
func (b *Store) readValue(ctx context.Context, a *agent, name string) (value.Value, error) {
	r, _, err := b.read(ctx, a.stored.key(name))
	if err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", name, a.path, err)
	}
	_, v, err := parseRecord(r.Value)
	if err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", name, a.path, err)
	}
	return v, nil
}

// Import sets persistent beliefs of an agent on behalf of a person, all of them or none. If the
// store cannot take them in one step, they are staged first. One write then commits the import, and
// the values are moved into place. If that is interrupted, the next access or the next Store
// finishes it.
func (b *Store) Import(ctx context.Context, path string, values value.Named) error {
	if s := (Step{Path: path, Set: values}); s.check() == nil {
		return b.importStep(ctx, s)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := (Step{Path: path, Set: value.Named{name: values[name]}}).check(); err != nil {
			return err
		}
	}
	if err := (usage{count: len(values)}).check(path); err != nil {
		return err
	}
	a := b.agent(path)
	if err := a.lock(ctx); err != nil {
		return err
	}
	defer a.unlock()
	if err := b.resolvePending(ctx, a); err != nil {
		return err
	}
	if err := b.stage(ctx, a, values); err != nil {
		b.unstage(context.WithoutCancel(ctx), a)
		return err
	}
	decided := &write{}
	h := header{Time: time.Now().UTC()}
	decided.put(&a.imports, importName, h.encode(value.Null), newEntry(h, value.Null, 0))
	if err := b.commit(ctx, a, decided); err != nil {
		if !errors.Is(err, store.ErrUnknown) {
			b.unstage(context.WithoutCancel(ctx), a)
		}
		return err
	}
	return b.finish(ctx, a)
}

// importStep is Import for values that fit into one step.
func (b *Store) importStep(ctx context.Context, s Step) error {
	a := b.agent(s.Path)
	a.mu.RLock()
	err := a.checkPersistent(s.Set)
	a.mu.RUnlock()
	if err != nil || len(s.Set) == 0 {
		return err
	}
	return b.Apply(ctx, s)
}

// checkPersistent returns an ErrRefused if a belief is not persistent. Such a value would be lost,
// and is never exported.
func (a *agent) checkPersistent(values value.Named) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if d, ok := a.inForce[name]; ok && !d.Persistent {
			return fmt.Errorf("%w: belief %s of %s is not persistent, expected only persistent ones in an import",
				ErrRefused, name, a.path)
		}
	}
	return nil
}

// batches splits names into portions whose values fit into one write.
func batches(size func(name string) int, names []string) (all [][]string) {
	const most = store.MaxOps / 2
	bytes, from := 0, 0
	for i, name := range names {
		if i > from && (i-from == most || bytes+size(name) > MaxStepBytes) {
			all, from, bytes = append(all, names[from:i]), i, 0
		}
		bytes += size(name)
	}
	if from < len(names) {
		all = append(all, names[from:])
	}
	return all
}

// stage checks values and writes them where they are not visible.
func (b *Store) stage(ctx context.Context, a *agent, values value.Named) error {
	names := slices.Sorted(maps.Keys(values))
	a.mu.RLock()
	u, life := a.usage(), a.life
	err := a.checkPersistent(values)
	for _, name := range names {
		if err == nil {
			_, err = a.replace(&u, name, values[name])
		}
	}
	a.mu.RUnlock()
	if err = cmp.Or(err, u.check(a.path)); err != nil {
		return err
	}
	b.unstage(ctx, a)
	for _, name := range u.unusable {
		if err := b.setAside(ctx, a, name); err != nil {
			return err
		}
	}
	h := header{Life: life.ID, Time: time.Now().UTC()}
	for _, some := range batches(func(name string) int { return len(name) + len(values[name]) }, names) {
		w := &write{}
		for _, name := range some {
			w.put(&a.staged, name, h.encode(values[name]), newEntry(h, values[name], 0))
		}
		if err := b.commit(ctx, a, w); err != nil {
			return err
		}
	}
	return nil
}

// unstage removes staged values that were not committed. It stops at the first error.
func (b *Store) unstage(ctx context.Context, a *agent) {
	for some := range slices.Chunk(a.staged.names(), store.MaxOps) {
		w := &write{}
		for _, name := range some {
			w.remove(&a.staged, name)
		}
		if a.pending != nil || b.commit(ctx, a, w) != nil {
			return
		}
	}
}

// finish moves the values of a committed import into place. The caller holds the write lock.
func (b *Store) finish(ctx context.Context, a *agent) error {
	if len(a.imports.entries) == 0 {
		return nil
	}
	for _, some := range batches(func(name string) int { return len(name) + a.staged.entries[name].size },
		a.staged.names()) {
		w := &write{}
		for _, name := range some {
			r, _, err := b.read(ctx, a.staged.key(name))
			if err != nil {
				return errUnfinished(a, err)
			}
			w.put(&a.stored, name, r.Value, decode(r))
			w.remove(&a.staged, name)
		}
		if err := b.commit(ctx, a, w); err != nil {
			return errUnfinished(a, err)
		}
	}
	w := &write{}
	w.remove(&a.imports, importName)
	if err := b.commit(ctx, a, w); err != nil {
		return errUnfinished(a, err)
	}
	return nil
}

func errUnfinished(a *agent, err error) error {
	return fmt.Errorf("finishing an import of %s; the next access continues it: %w", a.path,
		err)
}
