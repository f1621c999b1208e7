package task

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Claiming selects the task to claim.
type Claiming struct {
	// ID names the task. Without it, the first ready task is claimed: one that is assigned to
	// the claimant, else one of Pools, in their order. With Any, a task without pool and
	// assignee comes last.
	ID    string   `json:"id,omitempty"`
	Pools []string `json:"pools,omitempty"`
	Any   bool     `json:"any,omitempty"`
	// Key makes the request idempotent: the same key gets the same task again.
	Key string `json:"key,omitempty"`
}

// maxPools bounds the pools of one request.
const maxPools = 100

// AssignedTo returns the place of the tasks that are assigned to an agent or a person.
func AssignedTo(name string) Place { return Place{assignee: name} }

// Places returns the places to search for a ready task, in order.
func (c Claiming) Places(actor Actor) []Place {
	all := []Place{{assignee: actor.String()}}
	for _, pool := range c.Pools {
		if pool != "" && !slices.Contains(all, Place{pool: pool}) {
			all = append(all, Place{pool: pool})
		}
	}
	if c.Any {
		all = append(all, Place{})
	}
	return all
}

// Claim binds a task to one incarnation of an agent, or to a person. The claim lasts until the
// task is closed or released, or the incarnation ends. An actor may hold several tasks. The error
// is ErrNothing if no task is ready.
func (s *Step) Claim(actor Actor, c Claiming) (Task, error) {
	if err := CheckText("key", c.Key, MaxName, false); err != nil {
		return Task{}, err
	}
	if len(c.Pools) > maxPools {
		return Task{}, fmt.Errorf("%w: %d pools are named, at most %d are allowed", ErrInvalid, len(c.Pools),
			maxPools)
	}
	if err := s.state.agents.check(actor); err != nil {
		return Task{}, err
	}
	r, err := s.state.findClaimable(actor, c)
	if err != nil {
		return Task{}, err
	}
	if holdsClaim(actor, r) {
		return s.state.Show(r), nil
	}
	after := *r
	after.Status, after.NotBefore = InProgress, time.Time{}
	after.Claim = &Holder{
		By: actor.String(), Incarnation: actor.Incarnation, Life: s.state.agents.running[actor.Path].ID,
		At: now(), Key: c.Key,
	}
	after.Claims++
	if err := s.save(&after, actor, Claimed, ""); err != nil {
		return Task{}, err
	}
	s.claimed(&after)
	return s.state.Show(&after), nil
}

// holdsClaim reports whether an actor has claimed a task.
func holdsClaim(actor Actor, r *Record) bool {
	c := r.Claim
	return c != nil && c.By == actor.String() && c.Incarnation == actor.Incarnation
}

// findClaimable returns the task to claim. It may already be claimed by the actor.
func (s *State) findClaimable(actor Actor, c Claiming) (*Record, error) {
	held := s.index.claimed[actor.String()]
	if c.Key != "" {
		for id := range held {
			if r := s.Record(id); holdsClaim(actor, r) && r.Claim.Key == c.Key {
				return r, nil
			}
		}
	}
	if c.ID != "" {
		r, err := s.Find(c.ID)
		if err != nil || holdsClaim(actor, r) {
			return r, err
		}
		if err := s.checkClaimable(actor, r); err != nil {
			return nil, err
		}
		return r, checkHeldTasks(actor, held)
	}
	for _, at := range c.Places(actor) {
		if r := s.index.first(at); r != nil {
			return r, checkHeldTasks(actor, held)
		}
	}
	return nil, ErrNothing
}

// checkHeldTasks returns an ErrFull if an agent holds too many tasks.
func checkHeldTasks(actor Actor, held map[string]bool) error {
	if !actor.Person() && len(held) >= MaxHeld {
		return fmt.Errorf("%w: %s has claimed %d tasks; it must close or release some first",
			ErrFull, actor, len(held))
	}
	return nil
}

// checkClaimable returns an error if a task cannot be claimed.
func (s *State) checkClaimable(actor Actor, r *Record) error {
	switch waits := s.index.waitsFor(r); {
	case r.closed():
		return errClosed(r, "coppice task reopen "+r.ID)
	case r.Claim != nil:
		return fmt.Errorf("%w: %s is in progress at %s since %s", ErrConflict, r.ID, r.Claim.name(),
			r.Claim.At.Format(time.RFC3339))
	case r.Status == InProgress:
		return fmt.Errorf("%w: %s was imported as in progress; release it with: coppice task retry %[2]s",
			ErrConflict, r.ID)
	case r.Assignee != "" && r.Assignee != actor.String() && !actor.Person():
		return fmt.Errorf("%w: %s is assigned to %s", ErrConflict, r.ID, r.Assignee)
	case s.index.isHeld(r) && !actor.Person():
		return fmt.Errorf("%w: the tasks of the pool %s are paused: %s", ErrConflict, r.Pool, s.pool(r.Pool).Reason)
	case len(waits) > 0:
		return fmt.Errorf("%w: %s waits for %s", ErrConflict, r.ID, strings.Join(waits, ", "))
	case r.effective(s.index.now) == Deferred && !r.NotBefore.IsZero():
		return fmt.Errorf("%w: %s is deferred until %s", ErrConflict, r.ID, r.NotBefore.Format(time.RFC3339))
	case r.Status == Parked:
		return errParked(r)
	case r.Status != Open && r.effective(s.index.now) != Open:
		return fmt.Errorf("%w: %s is %s; open it with: coppice task edit %[2]s --status open", ErrConflict, r.ID,
			r.Status)
	}
	return nil
}

// Release opens a claimed task again.
func (s *Step) Release(actor Actor, id, reason string) (Task, error) {
	return s.change(actor, id, func(r *Record) error {
		switch {
		case r.closed():
			return errClosed(r, "coppice task reopen "+r.ID)
		case r.Status == Open && r.Claim == nil:
			return errUnchanged
		case r.Status == Parked:
			return errParked(r)
		case r.Status != InProgress:
			return fmt.Errorf("%w: %s is %s, and not claimed", ErrConflict, r.ID, r.Status)
		}
		if err := checkHolder(actor, r); err != nil {
			return err
		}
		return s.giveBack(r, actor, reason)
	})
}

// giveBack ends the attempt at a task that is in progress, without a report about it. If an agent does so, the attempt
// counts as failed.
func (s *Step) giveBack(r *Record, actor Actor, reason string) error {
	if r.Claim == nil { // it was imported as in progress
		return s.reopen(r, actor, reason)
	}
	if actor.Person() {
		r.forget()
		return s.endAttempt(r, ending{
			by: actor, outcome: takenBack(actor, "has released it: "+reason), reason: reason,
		})
	}
	o := newOutcome(outcome.Report{
		Kind: outcome.Retryable, Context: &outcome.Context{
			Approach: unreported,
			Obstacle: outcome.Obstacle{
				Kind:        outcome.OtherObstacle,
				Description: cut(strings.TrimSuffix("given back: "+strings.TrimSpace(reason), ": ")),
			},
		},
	})
	return s.endAttempt(r, ending{by: actor, outcome: o, reason: reason})
}

// Ending describes how to close a task.
type Ending struct {
	Outcome Outcome `json:"outcome,omitempty"` // Completed if empty
	Reason  string  `json:"reason,omitempty"`
	Force   bool    `json:"force,omitempty"` // even if it has children that are not closed
}

// Finish closes a task. A claimed task is closed by its claimant or a person, any other by anyone.
// Closing it again in the same way changes nothing.
func (s *Step) Finish(actor Actor, id string, e Ending) (Task, error) {
	e.Outcome = cmp.Or(e.Outcome, Completed)
	e.Reason = strings.TrimSpace(e.Reason)
	return s.change(actor, id, func(r *Record) error {
		if r.closed() {
			if r.ClosedBy == actor.String() && cmp.Or(r.Outcome, Completed) == e.Outcome && r.Reason == e.Reason {
				return errUnchanged
			}
			return errClosed(r, "coppice task reopen "+r.ID)
		}
		if err := checkHolder(actor, r); err != nil {
			return err
		}
		if err := checkOneOf("outcome", e.Outcome, Outcomes()...); err != nil {
			if e.Outcome == "failed" {
				err = fmt.Errorf("%w; an attempt that fails ends with: coppice agent outcome, which says why", err)
			}
			return err
		}
		if r.Claim != nil && !actor.Person() && e.Outcome == Cancelled {
			return fmt.Errorf("%w: %s was claimed by %s, which cannot cancel it; say why it cannot be done, with: "+
				"coppice agent outcome escalated", ErrConflict, r.ID, actor)
		}
		if e.Outcome == Completed {
			if err := requireEvidence(actor, r, nil); err != nil {
				return err
			}
		}
		if n := s.state.index.openCount[r.ID]; n > 0 && !e.Force {
			children := strings.Join(s.state.index.openChildren(r.ID), ", ")
			return fmt.Errorf("%w: %s has %d children that are not closed: %s; close them first, or "+
				"only the parent with --force", ErrConflict, r.ID, n, children)
		}
		if r.Claim != nil {
			how := newOutcome(outcome.Report{Kind: outcome.Completed, Summary: e.Reason})
			if e.Outcome == Cancelled {
				how = takenBack(actor, "has cancelled it: "+e.Reason)
			}
			s.recordAttempt(r, how, actor.String())
		}
		return s.close(r, actor, e.Outcome, e.Reason)
	})
}

// close closes a task.
func (s *Step) close(r *Record, actor Actor, how Outcome, reason string) error {
	r.Status, r.Claim, r.NotBefore = Closed, nil, time.Time{}
	r.Outcome, r.Reason, r.ClosedBy, r.ClosedAt = how, reason, actor.String(), now()
	s.settle(r)
	return s.save(r, actor, Ended, reason)
}

// Reopen opens a closed task again.
func (s *Step) Reopen(actor Actor, id, reason string) (Task, error) {
	return s.change(actor, id, func(r *Record) error {
		if !r.closed() {
			switch r.Status {
			case Open:
				return errUnchanged
			case Parked:
				return errParked(r)
			}
			return fmt.Errorf("%w: %s is %s, not closed", ErrConflict, r.ID, r.Status)
		}
		return s.reopen(r, actor, reason)
	})
}

// Retry makes a task open now, whether it is closed, blocked, deferred or claimed. A claimant
// loses it, and its attempt ends. Only a person can retry a parked task. The task still waits for other tasks.
func (s *Step) Retry(actor Actor, id, reason string) (Task, error) {
	return s.change(actor, id, func(r *Record) error {
		if r.Status == Open && r.NotBefore.IsZero() {
			return errUnchanged
		}
		switch err := checkHolder(actor, r); {
		case err != nil:
			return err
		case r.Status == Parked && !actor.Person():
			return errParked(r)
		case r.Claim != nil && !actor.Person():
			return s.giveBack(r, actor, reason)
		case r.Claim != nil:
			s.recordAttempt(r, takenBack(actor, "has retried it: "+reason), actor.String())
		}
		return s.reopen(r, actor, reason)
	})
}

func (s *Step) reopen(r *Record, actor Actor, reason string) error {
	r.Status, r.Claim, r.NotBefore = Open, nil, time.Time{}
	r.Outcome, r.ClosedBy, r.ClosedAt, r.Reason = "", "", time.Time{}, strings.TrimSpace(reason)
	s.settle(r)
	r.Decomposed, r.StoppedBy = false, nil
	if actor.Person() {
		r.forget()
	}
	return s.save(r, actor, Reopened, r.Reason)
}
