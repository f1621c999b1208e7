package task

import (
	"errors"
	"slices"
	"time"
)

// Step is one decision. What it changes is visible in the State at once.
type Step struct {
	Changeset
	// attempt has ended, of the task attemptAt. It becomes part of the next event about that.
	attempt   *Attempt
	attemptAt string
}

// Record returns the record of a task with the changes of the step, nil if there is none.
func (s *Step) Record(id string) *Record { return s.state.Record(id) }

// errUnchanged ends a change that has nothing to do.
var errUnchanged = errors.New("it is so already")

// change applies a function to a copy of a task, which saves it.
func (s *Step) change(actor Actor, id string, how func(*Record) error) (Task, error) {
	if err := s.state.agents.check(actor); err != nil {
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
	s.set(r.ID, r)
	if before == nil || before.Parent != r.Parent || !slices.Equal(before.DependsOn, r.DependsOn) {
		if err := s.state.index.checkCycle(r.ID); err != nil {
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
