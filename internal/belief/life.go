package belief

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
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

// End closes an incarnation if it is the open one.
func (b *Store) End(path string, incarnation uint64) {
	a := b.find(path)
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Incarnation == incarnation {
		a.life = Life{}
		a.applyDeclaration()
	}
}
