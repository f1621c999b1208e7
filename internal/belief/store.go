// Package belief keeps the beliefs of agents: named values of each agent, written
// through to the store, so that the next incarnation continues from what was
// acknowledged to the last one.
//
// A Store holds the beliefs of all agents of a project. Each belief is one
// record. An agent's writes are done one after the other, each as one atomic
// step, and those of different agents at once, so that they share a commit of
// the store. What may write is the incarnation that is open, or a person: Begin
// of the next incarnation waits for the write under way and refuses all later
// ones of its predecessor, so that no incarnation starts from a value that then
// changes.
package belief

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/value"
)

// Limits. Errors about them are *value.LimitError.
const (
	MaxBeliefs   = spec.MaxBeliefs // of one agent
	MaxBytes     = 16 << 20        // names and values of one agent
	MaxStep      = 64              // values of one step
	MaxStepBytes = 1 << 20         // names and values of one step
)

// Errors of a Store; those of the store come through.
var (
	// ErrStale: who asks is not the incarnation that is open.
	ErrStale = errors.New("this incarnation has ended")
	// ErrNotFound: there is no such belief, or no such agent.
	ErrNotFound = errors.New("no such belief")
	// ErrRefused: the step is wrong, whatever the state: a name, a type.
	ErrRefused = errors.New("refused")
)

// Person stands for a person where an incarnation is asked for.
const Person = 0

// Life is one incarnation of an agent.
type Life struct {
	Incarnation uint64 // above zero
	// ID is the incarnation's own, secret, and the same for
	// the daemon that takes it over: numbers may come again, this does not. What is not
	// persistent holds for as long as the life that wrote it.
	ID string
}

// Problem is something that a person should know and that stops no agent.
type Problem struct {
	Path, Name string // Name is empty if it is about the agent as a whole
	Message    string
}

// Store keeps the beliefs of all agents. Its methods may be called by many
// goroutines. It must be the only one that writes to its part of the store.
type Store struct {
	store store.Store

	mu     sync.Mutex
	agents map[string]*agent // by path
}

// agent is the beliefs of one agent.
type agent struct {
	path      string
	writeLock chan struct{} // isCurrent a token while no call writes, fetches or begins

	pending *write // of an unknown outcome; belongs to the holder of the turn

	mu       sync.RWMutex // of what follows; changed only by the holder of the turn, and by End and Declare
	unknown  bool         // there is a pending write
	known    bool         // the file names the agent
	declared []spec.Belief
	inForce  map[string]spec.Belief // in force; nil if anything goes
	order    []string               // names of decls
	life     Life                   // zero if none is open
	stored   records
	aside    records
	staged   records
	imports  records
}

// Open reads what the store holds. Problems are records that cannot be read;
// they cost their own belief its value, nothing else.
func Open(ctx context.Context, s store.Store) (*Store, []Problem, error) {
	b := &Store{store: s, agents: make(map[string]*agent)}
	var problems []Problem
	for i, under := range prefixes {
		for r, err := range store.All(ctx, s, under) {
			if err != nil {
				return nil, nil, fmt.Errorf("reading the beliefs: %w", err)
			}
			path, name, ok := parseKey(under, r.Key)
			if !ok {
				problems = append(problems, Problem{Message: fmt.Sprintf("the record %s names "+
					"no belief and is ignored", r.Key)})
				continue
			}
			e := decode(r)
			b.agent(path).parts()[i].put(name, e)
			if e.damage != "" && under == prefix {
				problems = append(problems, Problem{path, name,
					"its record cannot be read: " + e.damage +
						"; the initial value holds. coppice belief get --raw shows it"})
			}
		}
	}
	for _, a := range b.all("") {
		// An import that was decided is finished before anybody reads, one that was not is forgotten.
		a.unknown = len(a.imports.entries) > 0
		if !a.unknown {
			b.unstage(ctx, a)
		}
	}
	return b, problems, nil
}

// prefixes are where the records are, in the order of agent.parts.
var prefixes = []string{prefix, asidePrefix, stagedPrefix, importPrefix}

// parts are the records of an agent, one for each of the prefixes.
func (a *agent) parts() []*records { return []*records{&a.stored, &a.aside, &a.staged, &a.imports} }

// agent returns the agent of a path, which is made if there is none.
func (b *Store) agent(path string) *agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agents[path]
	if a == nil {
		a = &agent{path: path, writeLock: make(chan struct{}, 1)}
		for i, part := range a.parts() {
			*part = newRecords(prefixes[i], path)
		}
		a.writeLock <- struct{}{}
		b.agents[path] = a
	}
	return a
}

// find returns the agent of a path, nil if there is none.
func (b *Store) find(path string) *agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents[path]
}

// all are the agents at and below a path, sorted; "" is everywhere.
func (b *Store) all(path string) []*agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*agent
	for _, p := range slices.Sorted(maps.Keys(b.agents)) {
		if path == "" || p == path || strings.HasPrefix(p, path+"/") {
			all = append(all, b.agents[p])
		}
	}
	return all
}

// lock waits for the turn, until ctx ends.
func (a *agent) lock(ctx context.Context) error {
	select {
	case <-a.writeLock:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another write of %s: %w", a.path, context.Cause(ctx))
	}
}

func (a *agent) unlock() { a.writeLock <- struct{}{} }

// Declare says which beliefs an agent of the file has. It holds from its next
// incarnation on; at once if none is open.
func (b *Store) Declare(path string, beliefs []spec.Belief) {
	a := b.agent(path)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.declared = true, beliefs
	if a.life == (Life{}) {
		a.applyDeclaration()
	}
}

// applyDeclaration puts the last declaration into force.
func (a *agent) applyDeclaration() {
	a.inForce, a.order = nil, nil
	for _, d := range a.declared {
		if a.inForce == nil {
			a.inForce = make(map[string]spec.Belief, len(a.declared))
		}
		a.inForce[d.Name] = d
		a.order = append(a.order, d.Name)
	}
}

// checkIncarnation returns an ErrStale if it is not the turn of an incarnation.
func (a *agent) checkIncarnation(by uint64) error {
	if by == Person || a.life.Incarnation == by {
		return nil
	}
	open := "none is open"
	if a.life.Incarnation > 0 {
		open = fmt.Sprintf("incarnation %d is open", a.life.Incarnation)
	}
	return fmt.Errorf("%w: incarnation %d of %s; %s", ErrStale, by, a.path, open)
}

// errMissing is the error for a name that nothing has.
func (a *agent) errMissing(name string) error {
	names := a.order
	if a.inForce == nil {
		names = a.stored.names()
	}
	hint := ""
	if near := suggest.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", spec.Quote(near))
	} else if a.inForce != nil {
		hint = "; it declares " + brief(names)
	}
	return fmt.Errorf("%w: %s has no belief %s%s", ErrNotFound, a.path, spec.Quote(name), hint)
}

// brief lists names, not all if there are many.
func brief(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// isCurrent reports whether a record is a value of the belief now: it was written
// to last, or in this very life.
func (a *agent) isCurrent(e *entry, persistent bool) bool {
	return e != nil && (persistent && !e.Transient || e.Life != "" && e.Life == a.life.ID)
}

// fits is value.Type.Fits for a value that may not be at hand.
func (e *entry) fits(t value.Type) bool {
	if e.value == "" { // a large one is no number
		return t == value.Any || t == e.typ
	}
	return t.Fits(e.value)
}
