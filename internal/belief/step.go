package belief

import (
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

// Step is a change of an agent's beliefs that is applied as a whole or not at all.
type Step struct {
	Path string
	By   uint64 // the calling incarnation, or Person
	Set  value.Named
	// Delete names beliefs to remove. A declared one gets its initial value again.
	Delete []string
}

// check returns an error if a step is invalid in any state.
func (s Step) check() error {
	if wrong := CheckPath(s.Path); wrong != "" {
		return fmt.Errorf("%w: %s", ErrRefused, wrong)
	}
	if n := len(s.Set) + len(s.Delete); n > MaxStep {
		return fmt.Errorf("%s: %w", s.Path, &value.LimitError{What: "a step", Have: n, Max: MaxStep, Unit: "values",
			Hint: "make several steps, or one value of several"})
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(s.Set)), s.Delete) {
		if wrong := spec.CheckBeliefName(name); wrong != "" {
			return fmt.Errorf("%w: %s", ErrRefused, wrong)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		if s.Set[name] == "" {
			return fmt.Errorf("%w: no value for %s of %s", ErrRefused, name, s.Path)
		}
		if n := len(s.Set[name]); n > value.MaxBytes {
			return fmt.Errorf("%s of %s: %w", name, s.Path, value.TooLarge(n))
		}
	}
	for i, name := range s.Delete {
		if _, set := s.Set[name]; set || slices.Contains(s.Delete[:i], name) {
			return fmt.Errorf("%w: %s of %s is changed twice in one step", ErrRefused, name, s.Path)
		}
	}
	size := 0
	for name, v := range s.Set {
		size += len(name) + len(v)
	}
	if size > MaxStepBytes {
		return fmt.Errorf("%s: %w", s.Path, &value.LimitError{What: "a step", Have: size, Max: MaxStepBytes,
			Unit: "bytes", Hint: "make several steps"})
	}
	return nil
}

// Apply applies a step and returns when it is durable. A step that fails has changed nothing,
// unless the error is store.ErrUnknown. After an error for which store.Refused is true it may be
// repeated.
func (b *Store) Apply(ctx context.Context, s Step) error {
	if err := s.check(); err != nil {
		return err
	}
	a := b.find(s.Path)
	if a == nil {
		if s.By != Person {
			return (&agent{path: s.Path}).checkIncarnation(s.By)
		}
		a = b.agent(s.Path)
	}
	if err := a.lock(ctx); err != nil {
		return err
	}
	defer a.unlock()
	// The first change after the files of the store were replaced fails once.
	for range 3 {
		err := b.apply(ctx, a, s)
		if !errors.Is(err, errChangedElsewhere) {
			return err
		}
	}
	return errChangedElsewhere
}

func (b *Store) apply(ctx context.Context, a *agent, s Step) error {
	if err := b.resolvePending(ctx, a); err != nil {
		return err
	}
	a.mu.RLock()
	w, old, err := a.plan(s)
	a.mu.RUnlock()
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := b.setAside(ctx, a, name); err != nil {
			return err
		}
	}
	return b.commit(ctx, a, w)
}

// plan returns the write for a step, and the names whose records have to be set aside before it.
// The caller holds mu.
func (a *agent) plan(s Step) (w *write, old []string, err error) {
	if err := a.checkIncarnation(s.By); err != nil {
		return nil, nil, err
	}
	w = &write{}
	u, now := a.usage(), time.Now().UTC()
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		h := header{Incarnation: s.By, Life: a.life.ID, Time: now}
		if h.Transient, err = a.replace(&u, name, s.Set[name]); err != nil {
			return nil, nil, err
		}
		w.put(&a.stored, name, h.encode(s.Set[name]), newEntry(h, s.Set[name], 0))
	}
	for _, name := range s.Delete {
		was := a.stored.entries[name]
		_, declared := a.inForce[name]
		switch {
		case was != nil:
			u.count, u.bytes = u.count-1, u.bytes-len(name)-was.size
			w.remove(&a.stored, name)
			if was.damage != "" && s.By != Person {
				u.unusable = append(u.unusable, name)
			}
		case s.By == Person && a.aside.entries[name] != nil:
		case !declared:
			return nil, nil, a.errMissing(name)
		}
		if s.By == Person && a.aside.entries[name] != nil {
			w.remove(&a.aside, name)
		}
	}
	if n := len(w.ops); n > store.MaxOps { // records set aside are removed, too
		return nil, nil, &value.LimitError{What: "a step", Have: n, Max: store.MaxOps, Unit: "records",
			Hint: "remove some first"}
	}
	if len(s.Set) > 0 {
		err = u.check(a.path)
	}
	return w, u.unusable, err
}

// usage is how much an agent would store after a change.
type usage struct {
	count, bytes int
	unusable     []string // names whose records have to be set aside first
}

func (a *agent) usage() usage { return usage{count: len(a.stored.entries), bytes: a.stored.bytes} }

// replace adds a new value to the usage if its declaration allows it. The caller holds mu.
func (a *agent) replace(u *usage, name string, v value.Value) (transient bool, err error) {
	if transient, err = a.checkValue(name, v); err != nil {
		return false, err
	}
	if was := a.stored.entries[name]; was == nil {
		u.count, u.bytes = u.count+1, u.bytes+len(name)
	} else {
		u.bytes -= was.size
		if was.damage != "" || a.typeProblem(name, was) != "" {
			u.unusable = append(u.unusable, name)
		}
	}
	u.bytes += len(v)
	return transient, nil
}

func (u usage) check(path string) error {
	switch {
	case u.count > MaxBeliefs:
		return &value.LimitError{What: path, Have: u.count, Max: MaxBeliefs, Unit: "beliefs",
			Hint: "put several values into one list or map, or remove some with coppice belief rm"}
	case u.bytes > MaxBytes:
		return &value.LimitError{What: "all beliefs of " + path, Have: u.bytes, Max: MaxBytes, Unit: "bytes",
			Hint: "keep large things in files and their paths in beliefs"}
	}
	return nil
}

// checkValue checks a value against its declaration, and reports whether it is transient.
func (a *agent) checkValue(name string, v value.Value) (transient bool, err error) {
	if a.inForce == nil {
		return false, nil
	}
	d, ok := a.inForce[name]
	switch {
	case !ok:
		return false, fmt.Errorf("%w (an agent that declares beliefs can set no others)", a.errMissing(name))
	case !d.Type.Fits(v):
		return false, fmt.Errorf("%w: belief %s of %s is %s, expected a value of type %v", ErrRefused, name, a.path,
			value.Describe(v), d.Type)
	case !d.Persistent && a.life.ID == "":
		return false, fmt.Errorf("%w: belief %s of %s is not persistent and the agent is not running: the "+
			"value would be lost; change initial in the file", ErrRefused, name, a.path)
	}
	return !d.Persistent, nil
}

// typeProblem returns why a readable record does not have the declared type, or "".
func (a *agent) typeProblem(name string, e *entry) string {
	d, ok := a.inForce[name]
	if !ok || e.damage != "" || !a.isCurrent(e, d.Persistent) || e.fits(d.Type) {
		return ""
	}
	return fmt.Sprintf("it is stored as %v, and the file declares %v", e.typ, d.Type)
}

// setAside copies a record that could not be used and that a new value is about to replace.
func (b *Store) setAside(ctx context.Context, a *agent, name string) error {
	r, ok, err := b.read(ctx, a.stored.key(name))
	if err != nil || !ok {
		return err
	}
	w := &write{}
	w.put(&a.aside, name, r.Value, decode(r))
	return b.commit(ctx, a, w)
}

// Clear removes everything that is stored of an agent, in several steps if needed. It returns the
// names.
func (b *Store) Clear(ctx context.Context, path string) ([]string, error) {
	a := b.find(path)
	var names []string
	if a != nil {
		a.mu.RLock()
		names = slices.AppendSeq(a.stored.names(), maps.Keys(a.aside.entries))
		a.mu.RUnlock()
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no beliefs of %s are stored", ErrNotFound, path)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for some := range slices.Chunk(names, store.MaxOps/2) {
		if err := b.Apply(ctx, Step{Path: path, Delete: some}); err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return names, nil
}
