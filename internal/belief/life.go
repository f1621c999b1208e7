package belief

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// beginTimeout is how long the start of an agent waits for a store that does not
// say what became of a write.
const beginTimeout = 5 * time.Second

// Begin opens an incarnation, or takes it over: from here on it may write, and
// nobody before it. It waits for the write under way, and fails only if ctx
// ends meanwhile. Where the store does not say what became of the last write,
// it goes on with a Problem, and reads fail until that is known.
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
	var old []string // what an earlier life has left and can no longer be read
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
			break // they have no effect; it is only tidier without them
		}
	}
	return problems, nil
}

// End closes an incarnation, if it is the one that is open.
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
