package task

import (
	"fmt"
	"strings"
)

// Answer opens a task that a person was asked about, or that is parked. The answer becomes a comment for
// the next attempt.
func (s *Step) Answer(actor Actor, id, answer string) (Task, error) {
	return s.change(actor, id, func(r *Record) error {
		if err := checkAsked(actor, r); err != nil {
			return err
		}
		s.comment(r, actor, strings.TrimSpace(answer))
		return s.reopen(r, actor, cut(answer))
	})
}

// Reject cancels a task that a person was asked about, or that is parked.
func (s *Step) Reject(actor Actor, id, reason string) (Task, error) {
	return s.change(actor, id, func(r *Record) error {
		if err := checkAsked(actor, r); err != nil {
			return err
		}
		return s.close(r, actor, Cancelled, strings.TrimSpace(reason))
	})
}

// checkAsked returns an ErrConflict if an actor cannot answer for a task.
func checkAsked(actor Actor, r *Record) error {
	switch {
	case !actor.Person():
		return fmt.Errorf("%w: only a person can answer for %s", ErrConflict, r.ID)
	case r.closed():
		return errClosed(r, "coppice task reopen "+r.ID)
	case r.Question == nil && r.Status != Parked:
		return fmt.Errorf("%w: nothing is asked about %s, which is %s", ErrConflict, r.ID, r.Status)
	}
	return nil
}
