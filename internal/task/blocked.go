package task

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Wait is the condition of a blocked task.
type Wait struct {
	ID        string
	Condition outcome.Condition
	Since     time.Time
	LastEvent uint64 // events of the log after this number count
	Asked     bool   // a person is asked about the task, too
}

// Gate is a condition, and the blocked tasks that wait for it.
type Gate struct {
	_ struct{} `schema:"TaskGate" open:"true" doc:"A condition, and the blocked tasks that wait for it."`

	Condition outcome.Condition `json:"condition" doc:"The condition."`
	Tasks     int               `json:"tasks" minimum:"1" doc:"The number of tasks that wait for it."`
	Since     time.Time         `json:"since" doc:"Since when the first of them waits."`
	// The others are about the command that tells whether the condition holds, if there is one.
	CheckedAt time.Time `json:"checked_at,omitzero" doc:"When the last check has ended."`
	Result    string    `json:"result,omitempty" doc:"How the last check has ended, such as exit code 1."`
	Checking  bool      `json:"checking,omitempty" doc:"A check is running."`
	NextAt    time.Time `json:"next_at,omitzero" doc:"When the next check begins."`
}

// Waits returns what blocked tasks wait for, sorted by id.
func (s *State) Waits() []Wait {
	all := make([]Wait, 0, len(s.index.blocked))
	for _, id := range slices.Sorted(maps.Keys(s.index.blocked)) {
		r := s.Record(id)
		all = append(all, Wait{id, *r.Condition, r.BlockedAt, r.LastEvent, r.Question != nil})
	}
	return all
}

// Block makes a task wait for a condition, for a person. A claimant loses it. Events of the log after
// lastEvent count.
func (s *Step) Block(actor Actor, id string, c outcome.Condition, reason string, lastEvent uint64) (Task, error) {
	if err := outcome.CheckCondition(c); err != nil {
		return Task{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s.change(actor, id, func(r *Record) error {
		switch {
		case !actor.Person():
			return fmt.Errorf("%w: only a person can block a task; an agent ends its attempt with: coppice agent "+
				"outcome blocked", ErrConflict)
		case r.closed():
			return errClosed(r, "coppice task reopen "+r.ID)
		case r.Claim != nil:
			s.recordAttempt(r, takenBack(actor, "has blocked it: "+reason), actor.String())
		}
		r.Status, r.Claim, r.NotBefore, r.Reason = Blocked, nil, time.Time{}, cut(reason)
		s.settle(r)
		if err := s.state.block(r, c, lastEvent); err != nil {
			return err
		}
		return s.save(r, actor, HeldUp, r.Reason)
	})
}

// block makes a task wait until a condition holds. Events of the log after lastEvent count.
func (s *State) block(r *Record, c outcome.Condition, lastEvent uint64) error {
	switch c.Kind {
	case outcome.TaskDone:
		r.Status = Open // until the dependency is completed
		return s.addDependency(r, c.What, true)
	case outcome.TimeComes:
		at, err := time.Parse(time.RFC3339, c.What)
		if err != nil {
			return fmt.Errorf("%w: condition: %w", ErrInvalid, err)
		}
		r.Status, r.NotBefore = Open, at.UTC()
		return nil
	case outcome.ServiceUp:
		if !s.config.HasCheck(c.What) {
			r.Question = &Question{Text: fmt.Sprintf("Does this work again: %s?", c.What), At: now()}
		}
	case outcome.EventOccurs:
		r.LastEvent = lastEvent
	case outcome.PersonHas:
		r.Question = &Question{Text: c.What, At: now()}
	}
	r.Condition, r.BlockedAt = &c, now()
	return nil
}

// waiting returns a copy of the record of a task that has waited since then, and waits still; nil if it does not.
func (x *Index) waiting(w Wait) *Record {
	r := x.get(w.ID)
	if r == nil || r.Status != Blocked || r.Condition == nil || !r.BlockedAt.Equal(w.Since) {
		return nil
	}
	after := *r
	return &after
}

// Unblock opens a task whose condition holds; why says that. If its attempts have ended without a result,
// the next one waits as after a retryable outcome, so that a condition that holds without an effect makes
// no loop. Nothing happens if the task no longer waits.
func (s *Step) Unblock(w Wait, why string) error {
	r := s.state.index.waiting(w)
	if r == nil {
		return nil
	}
	by := Actor{Name: controller}
	r.Status, r.Reason = Open, cut(why)
	if pause := s.state.config.Pause(r.Retries); r.Retries > 0 && pause > 0 {
		r.NotBefore = now().Add(pause)
	}
	s.settle(r)
	s.comment(r, by, r.Reason)
	return s.save(r, by, Released, r.Reason)
}

// AskAbout asks a person about a task that waits for long. It waits on, too.
func (s *Step) AskAbout(w Wait, text string) error {
	r := s.state.index.waiting(w)
	if r == nil || r.Question != nil {
		return nil
	}
	r.Question = &Question{Text: cut(text), At: now()}
	return s.save(r, Actor{Name: controller}, Escalated, r.Question.Text)
}
