// Package belief stores the beliefs of agents. A belief is a named value. Values are written
// through to the store, so the next incarnation continues from what was acknowledged to the last
// one.
//
// A Store holds the beliefs of all agents of a project, one record each. Writes of an agent are
// serialized, each as one atomic step. Writes of different agents run concurrently, so they can
// share a commit of the store.
//
// Only the open incarnation and people may write. Begin of the next incarnation waits for the
// current write and refuses later ones of its predecessor. So the values that an incarnation starts
// from do not change afterwards.
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
	MaxSummoned  = 10_000          // agents with beliefs that an incarnation has summoned
)

// Errors of a Store. Errors of the underlying store are returned as they are.
var (
	// ErrStale means that the caller is not the open incarnation.
	ErrStale = errors.New("this incarnation has ended")
	// ErrNotFound means that there is no such belief or no such agent.
	ErrNotFound = errors.New("no such belief")
	// ErrRefused means that a step is invalid, as with a wrong name or type.
	ErrRefused = errors.New("refused")
)

// Person is the caller of a step by a person, in place of an incarnation.
const Person = 0

// Life identifies an incarnation of an agent.
type Life struct {
	Incarnation uint64 // above zero
	// ID is unique to the incarnation and secret. It stays the same when another daemon adopts the
	// incarnation, while numbers may repeat. Beliefs that are not persistent last as long as the
	// life that wrote them.
	ID string
}

// Problem is something that a person should know and that stops no agent.
type Problem struct {
	Path, Name string // Name is empty if it is about the agent as a whole
	Message    string
}

// Store holds the beliefs of all agents. It is safe for concurrent use. No other program may write
// to its part of the underlying store.
type Store struct {
	store store.Store

	mu     sync.Mutex
	agents map[string]*agent // by path
}

// agent holds the beliefs of one agent.
type agent struct {
	path      string
	writeLock chan struct{} // holds a token while it is free

	pending *write // a write of unknown outcome; guarded by the write lock

	mu       sync.RWMutex // guards the rest, which only holders of the write lock, End and Declare change
	unknown  bool         // there is a pending write or unfinished import
	known    bool         // the file names the agent
	declared []spec.Belief
	inForce  map[string]spec.Belief // declarations in force; nil if anything may be set
	order    []string               // names in force, as declared
	life     Life                   // the open incarnation; zero if there is none
	summoned map[string]struct{}    // paths of agents that it has summoned
	stored   records
	aside    records
	staged   records
	imports  records
}

// Open reads all beliefs. Problems are records that cannot be read; each affects only its own
// belief.
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
		// A committed import is finished before the next read; one that was not committed is
		// dropped.
		a.unknown = len(a.imports.entries) > 0
		if !a.unknown {
			b.unstage(ctx, a)
		}
	}
	return b, problems, nil
}

// prefixes are the prefixes of the records, in the order of agent.parts.
var prefixes = []string{prefix, asidePrefix, stagedPrefix, importPrefix}

// parts returns the records of an agent, one for each of the prefixes.
func (a *agent) parts() []*records { return []*records{&a.stored, &a.aside, &a.staged, &a.imports} }

// agent returns the agent with a path, and adds it if needed.
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

// find returns the agent with a path, nil if there is none.
func (b *Store) find(path string) *agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents[path]
}

// all returns the agents at and below a path, sorted; all of them if the path is empty.
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

// lock takes the write lock, waiting until ctx ends.
func (a *agent) lock(ctx context.Context) error {
	select {
	case <-a.writeLock:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another write of %s: %w", a.path, context.Cause(ctx))
	}
}

func (a *agent) unlock() { a.writeLock <- struct{}{} }

// Declare sets the declared beliefs of an agent. They apply from its next incarnation on; at once
// if none is open.
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

// checkIncarnation returns an ErrStale if an incarnation is not the open one.
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

// errMissing returns the error for a belief that does not exist.
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

// brief lists names, at most 20 of them.
func brief(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// isCurrent reports whether a record holds a current value: a persistent one, or one of this life.
func (a *agent) isCurrent(e *entry, persistent bool) bool {
	return e != nil && (persistent && !e.Transient || e.Life != "" && e.Life == a.life.ID)
}

// fits is value.Type.Fits for a value that may not be in memory.
func (e *entry) fits(t value.Type) bool {
	if e.value == "" { // a large value is not a number
		return t == value.Any || t == e.typ
	}
	return t.Fits(e.value)
}
