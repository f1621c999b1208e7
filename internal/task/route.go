package task

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// route says what becomes of a task when an attempt at it has ended.
type route struct {
	event  Kind
	status Status
	// pause says that the next attempt waits. The pause grows with each attempt, and an outcome
	// may ask for a longer one.
	pause bool
	// counts says that the attempt counts against the task, unless the obstacle was outside of it.
	// Too many of these park it.
	counts bool
}

// routeOf returns the route for a kind of outcome. There is no other place where it is decided.
func routeOf(kind outcome.Kind) route {
	switch kind {
	case outcome.Completed:
		return route{event: Ended, status: Closed}
	case outcome.Deferred:
		return route{event: Released, status: Open, pause: true}
	case outcome.Decomposed:
		return route{event: Divided, status: Open} // and waits for its subtasks
	case outcome.Blocked:
		return route{event: HeldUp, status: Blocked, pause: true}
	case outcome.Escalated:
		return route{event: Escalated, status: Parked}
	}
	return route{event: Released, status: Open, pause: true, counts: true}
}

// Report ends the attempt of a claimant with an outcome. Events of the log after lastEvent count for a
// condition.
func (s *Step) Report(actor Actor, id string, o outcome.Outcome, lastEvent uint64) (Task, error) {
	return s.change(actor, id, func(r *Record) error {
		switch {
		case r.closed():
			return errClosed(r, "coppice task reopen "+r.ID)
		case !holdsClaim(actor, r):
			return fmt.Errorf("%w: %s was not claimed by %s", ErrConflict, r.ID, actor)
		}
		return s.endAttempt(r, ending{by: actor, outcome: o, lastEvent: lastEvent})
	})
}

// ending is the end of an attempt.
type ending struct {
	by        Actor
	outcome   outcome.Outcome
	reason    string // of the task from now on; empty for the outcome in a line
	lastEvent uint64 // events of the log after it count for a condition
}

// endAttempt ends the attempt at a claimed task, and routes the task by the outcome.
func (s *Step) endAttempt(r *Record, e ending) error {
	report, holder := e.outcome.Report(), r.Claim.By
	if report.Kind == outcome.Completed {
		if err := requireEvidence(e.by, r, report.Evidence); err != nil {
			return err
		}
	}
	to := routeOf(report.Kind)
	reason := cut(cmp.Or(strings.TrimSpace(e.reason), e.outcome.String()))
	s.recordAttempt(r, e.outcome, e.by.String())
	r.Status, r.Claim, r.NotBefore, r.Reason = to.status, nil, time.Time{}, reason
	s.settle(r)
	switch report.Kind {
	case outcome.Completed:
		if n := s.state.index.openCount[r.ID]; n > 0 {
			return fmt.Errorf("%w: %s has %d children that are not closed: %s", ErrConflict, r.ID, n,
				strings.Join(s.state.index.openChildren(r.ID), ", "))
		}
		return s.close(r, e.by, Completed, strings.TrimSpace(report.Summary))
	case outcome.Decomposed:
		return s.decompose(r, e.by, report.Subtasks)
	case outcome.Escalated:
		r.Question = &Question{Text: report.Question, At: now()}
		s.stopScope(r)
	case outcome.Blocked:
		if err := s.state.block(r, *report.Condition, e.lastEvent); err != nil {
			return err
		}
	}
	if c := report.Context; c != nil && c.Obstacle.Kind == outcome.MissingPrerequisite && to.status == Open {
		must := report.Kind == outcome.Deferred && report.NotBefore == nil // or it waits for nothing
		if err := s.state.addDependency(r, c.Obstacle.TaskID, must); err != nil {
			return err
		}
	}
	if to.pause {
		r.pause(report, e.by, s.state.config.Pause)
	}
	if to.counts && !report.Context.Obstacle.Kind.Outside() &&
		r.countFailure(holder, report, s.state.config.MaxClaims()) {
		to.event = Withheld
	}
	return s.save(r, e.by, to.event, r.Reason)
}

// pause sets the earliest time of the next attempt, after a pause for the number of attempts without a result. A
// person, or the controller that has stopped the agent, leaves no pause.
func (r *Record) pause(report outcome.Report, reporter Actor, pause func(n int) time.Duration) {
	if report.NotBefore != nil && report.NotBefore.After(now()) {
		r.NotBefore = *report.NotBefore
	}
	if report.Kind == outcome.Deferred && reporter.Path == "" {
		return
	}
	r.Retries++
	if r.Status != Open {
		return
	}
	if wait := pause(r.Retries); wait > 0 {
		if at := now().Add(wait); at.After(r.NotBefore) {
			r.NotBefore = at
		}
	}
}

// Bounds on the pause after an attempt.
const (
	firstPause = 2 * time.Second
	lastPause  = time.Hour
)

// Pause returns a random pause after the nth attempt in a row without a result, up to 2 s after the
// first. The bound doubles with each, up to 1 h. The whole range is used, so that tasks that have
// failed together are not tried again together.
func Pause(n int) time.Duration {
	most := lastPause
	if shift := max(n, 1) - 1; shift < 11 {
		most = min(most, firstPause<<shift)
	}
	return rand.N(most)
}

// settle clears what a task has waited for, and lets its subtasks and those next to it go on.
func (s *Step) settle(r *Record) {
	r.Condition, r.Question, r.BlockedAt, r.LastEvent = nil, nil, time.Time{}, 0
	if r.closed() {
		r.StoppedBy = nil
	}
	s.resumeScope(r)
}

// forget resets what counts against a task, as a person opens it.
func (r *Record) forget() { r.FailedClaims, r.Retries = 0, 0 }
