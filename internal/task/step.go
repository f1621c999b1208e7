package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/task/pools"
)

// MaxStep bounds the sum of changes, writes and events of a step.
const MaxStep = 80

// Step is one decision. Its changes are visible in the State at once, and it collects what has to
// be written for them together.
type Step struct {
	Changes []Changed
	Writes  []Write
	Events  []Event
	state   *State
	// attempt has ended, of the task attemptAt. It becomes part of the next event about that.
	attempt   *Attempt
	attemptAt string
	pools     []pools.Pool // before the changes
	lastEvent uint64       // see Report
}

// Changed is a task that a step has replaced or removed.
type Changed struct {
	ID     string
	After  *Record // nil if it was removed
	before *Record
}

// Part is a kind of data that is stored next to the record of a task.
type Part string

// Parts of a task.
const (
	TextPart     Part = "texts"    // the text of the task
	ImportedPart Part = "brought"  // the rest of an imported bead
	CommentPart  Part = "comments" // one of its comments
	AttemptPart  Part = "attempts" // one of its attempts
	PoolPart     Part = "pools"    // not of a task: a pool, by its name
)

// Write is a change of data next to the record of a task.
type Write struct {
	Part  Part
	ID    string
	N     int    // index of a comment, number of an attempt
	Value []byte // nil removes it
}

// errUnchanged ends a change that has nothing to do.
var errUnchanged = errors.New("it is so already")

// Size returns the number that MaxStep bounds.
func (s *Step) Size() int { return len(s.Changes) + len(s.Writes) + len(s.Events) }

// Undo reverts the changes of the step in its State.
func (s *Step) Undo() {
	for _, c := range slices.Backward(s.Changes) {
		s.state.index.set(c.ID, c.before)
	}
	for _, before := range slices.Backward(s.pools) {
		s.state.setPool(before)
	}
}

// Emit adds an event.
func (s *Step) Emit(e Event) { s.Events = append(s.Events, e) }

// put replaces a task.
func (s *Step) put(r *Record) { s.set(r.ID, r) }

// set replaces a task, or removes it if r is nil.
func (s *Step) set(id string, r *Record) {
	s.Changes = append(s.Changes, Changed{id, r, s.state.index.set(id, r)})
}

func (s *Step) write(part Part, id string, value []byte) {
	s.Writes = append(s.Writes, Write{Part: part, ID: id, Value: value})
}

// change applies a function to a copy of a task, which saves it.
func (s *Step) change(actor Actor, id string, how func(*Record) error) (Task, error) {
	if err := s.state.checkAlive(actor); err != nil {
		return Task{}, err
	}
	r, err := s.state.Find(id)
	if err != nil {
		return Task{}, err
	}
	after := *r
	switch err := how(&after); {
	case errors.Is(err, errUnchanged):
		return s.state.Show(r), nil
	case err != nil:
		return Task{}, err
	}
	return s.state.Show(s.state.Record(r.ID)), nil
}

// save checks a task, adds it to the step and emits an event. It refuses dependency cycles.
func (s *Step) save(r *Record, actor Actor, kind Kind, note string) error {
	if err := r.Check(); err != nil {
		return err
	}
	before := s.state.Record(r.ID)
	if r.UpdatedAt = now(); before != nil && !r.UpdatedAt.After(before.UpdatedAt) {
		r.UpdatedAt = before.UpdatedAt.Add(time.Nanosecond) // the clock was set back
	}
	s.put(r)
	if before == nil || before.Parent != r.Parent || !slices.Equal(before.DependsOn, r.DependsOn) {
		if err := s.refuseCycle(r.ID); err != nil {
			return err
		}
	}
	e := Event{
		Kind: kind, Task: s.state.Show(r), By: actor, Note: note, Asks: r.Question != nil, Waits: r.Condition != nil,
	}
	if before != nil {
		e.Held = before.Claim
		e.Asks, e.Waits = e.Asks || before.Question != nil, e.Waits || before.Condition != nil
	}
	if s.attemptAt == r.ID {
		e.Attempt, s.attempt, s.attemptAt = s.attempt, nil, ""
	}
	s.Emit(e)
	if e.Attempt != nil {
		s.attempted(r, *e.Attempt)
	}
	if r.closed() && (before == nil || !before.closed()) {
		return s.rollUp(r)
	}
	return nil
}

// refuseCycle returns an ErrInvalid if a task is part of a dependency cycle.
func (s *Step) refuseCycle(id string) error {
	if path := s.state.index.cycle(id); path != nil {
		return CycleError(path)
	}
	return nil
}

// CycleError returns an ErrInvalid for a path of tasks that each wait for the next one. The last
// one is the first.
func CycleError(path []string) error {
	const most = 20
	if len(path) > most {
		path = slices.Concat(path[:most-2], []string{"..."}, path[len(path)-1:])
	}
	return fmt.Errorf("%w: dependency cycle: %s (a task waits for its dependencies and for its children)",
		ErrInvalid, strings.Join(path, " -> "))
}
