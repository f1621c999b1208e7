package belief

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/value"
)

// beginTimeout bounds the time that Begin waits for the outcome of an earlier write.
const beginTimeout = 5 * time.Second

// Begin opens an incarnation, or adopts it. From now on it may write, and no earlier one may. Begin
// waits for the current write, and fails only if ctx ends. If the outcome of the last write remains
// unknown, Begin returns a Problem, and reads fail until the outcome is known.
func (b *Store) Begin(ctx context.Context, path string, life Life) ([]Problem, error) {
	a := b.agent(path)
	a.mu.RLock()
	again := a.life == life && life != (Life{})
	a.mu.RUnlock()
	if again {
		return nil, nil
	}
	if err := a.lock(ctx); err != nil {
		return nil, err
	}
	defer a.unlock()
	var problems []Problem
	settling, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	if err := b.resolvePending(settling, a); err != nil {
		problems = append(problems, Problem{Path: path, Message: err.Error()})
	}
	a.mu.Lock()
	a.life = life
	a.applyDeclaration()
	var old []string // transient beliefs of earlier lives
	for _, name := range a.stored.names() {
		e := a.stored.entries[name]
		if wrong := a.typeProblem(name, e); wrong != "" {
			problems = append(problems, Problem{path, name,
				wrong + "; the initial value holds. coppice belief get --raw shows the stored record"})
		}
		if e.Transient && e.Life != life.ID && e.damage == "" {
			old = append(old, name)
		}
	}
	a.mu.Unlock()
	if a.pending != nil {
		return problems, nil
	}
	for some := range slices.Chunk(old, store.MaxOps) {
		w := &write{}
		for _, name := range some {
			w.remove(&a.stored, name)
		}
		if b.commit(ctx, a, w) != nil {
			break // they have no effect, and are removed later
		}
	}
	return problems, nil
}

// OpenSummoned opens the beliefs of an agent that an open incarnation has summoned, until that ends.
// below is its path below the other one. The named beliefs are persistent.
func (b *Store) OpenSummoned(ctx context.Context, path string, incarnation uint64, below string, names []string,
) ([]Belief, error) {
	at := path + "/" + below
	if wrong := CheckPath(at); wrong != "" || below == "" {
		return nil, fmt.Errorf("%w: %s", ErrRefused, cmp.Or(wrong, "the agent is missing"))
	}
	if len(names) > MaxBeliefs {
		return nil, fmt.Errorf("%s: %w", at, &value.LimitError{What: "an agent", Have: len(names), Max: MaxBeliefs,
			Unit: "beliefs"})
	}
	declared := make([]spec.Belief, len(names))
	for i, name := range names {
		if wrong := spec.CheckBeliefName(name); wrong != "" {
			return nil, fmt.Errorf("%w: %s", ErrRefused, wrong)
		}
		declared[i] = spec.Belief{Name: name, Persistent: true}
	}
	life, err := b.summon(path, incarnation, at)
	if err != nil {
		return nil, err
	}
	b.Declare(at, declared)
	// A belief with a damaged record loses its value, which the list of beliefs shows.
	if _, err := b.Begin(ctx, at, life); err != nil {
		return nil, err
	}
	return b.Get(ctx, at, incarnation, names...)
}

// summon records that an incarnation has summoned an agent, and returns the life of both.
func (b *Store) summon(path string, incarnation uint64, at string) (Life, error) {
	a := b.agent(path)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.checkIncarnation(incarnation); err != nil {
		return Life{}, err
	}
	if _, again := a.summoned[at]; !again && len(a.summoned) >= MaxSummoned {
		return Life{}, fmt.Errorf("%s: %w", path, &value.LimitError{What: "an agent", Have: len(a.summoned) + 1,
			Max: MaxSummoned, Unit: "summoned agents with beliefs"})
	}
	if a.summoned == nil {
		a.summoned = map[string]struct{}{}
	}
	a.summoned[at] = struct{}{}
	return a.life, nil
}

// End closes an incarnation if it is the open one, and those of the agents that it has summoned.
func (b *Store) End(path string, incarnation uint64) {
	a := b.find(path)
	if a == nil {
		return
	}
	for at := range a.end(incarnation) {
		b.End(at, incarnation)
	}
}

// end closes an incarnation if it is the open one, and returns what it has summoned.
func (a *agent) end(incarnation uint64) (summoned map[string]struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Incarnation != incarnation {
		return nil
	}
	a.life = Life{}
	a.applyDeclaration()
	summoned, a.summoned = a.summoned, nil
	return summoned
}
