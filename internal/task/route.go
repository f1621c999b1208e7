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
		s.lastEvent = lastEvent
		return s.endAttempt(r, actor, o, "")
	})
}

// endAttempt ends the attempt at a claimed task, and routes the task by the outcome. An empty reason
// means the outcome in a line.
func (s *Step) endAttempt(r *Record, reporter Actor, o outcome.Outcome, reason string) error {
	report, holder := o.Report(), r.Claim.By
	if report.Kind == outcome.Completed {
		if err := requireEvidence(reporter, r, report.Evidence); err != nil {
			return err
		}
	}
	to := routeOf(report.Kind)
	reason = cut(cmp.Or(strings.TrimSpace(reason), o.String()))
	s.recordAttempt(r, o, reporter.String())
	r.Status, r.Claim, r.NotBefore, r.Reason = to.status, nil, time.Time{}, reason
	s.settle(r)
	switch report.Kind {
	case outcome.Completed:
		if n := s.state.index.openCount[r.ID]; n > 0 {
			return fmt.Errorf("%w: %s has %d children that are not closed: %s", ErrConflict, r.ID, n,
				strings.Join(s.state.index.openChildren(r.ID), ", "))
		}
		return s.close(r, reporter, Completed, strings.TrimSpace(report.Summary))
	case outcome.Decomposed:
		return s.decompose(r, reporter, report.Subtasks)
	case outcome.Escalated:
		r.Question = &Question{Text: report.Question, At: now()}
		if err := s.stopScope(r); err != nil {
			return err
		}
	case outcome.Blocked:
		if err := s.wait(r, *report.Condition); err != nil {
			return err
		}
	}
	if c := report.Context; c != nil && c.Obstacle.Kind == outcome.MissingPrerequisite && to.status == Open {
		must := report.Kind == outcome.Deferred && report.NotBefore == nil // or it waits for nothing
		if err := s.dependOn(r, c.Obstacle.TaskID, must); err != nil {
			return err
		}
	}
	if to.pause {
		s.pause(r, report, reporter)
	}
	if to.counts && !report.Context.Obstacle.Kind.Outside() && s.countFailure(r, holder, report) {
		to.event = Withheld
	}
	return s.save(r, reporter, to.event, r.Reason)
}

// pause sets the earliest time of the next attempt. A person, or the controller that has stopped the agent, leaves no
// pause.
func (s *Step) pause(r *Record, report outcome.Report, reporter Actor) {
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
	if pause := s.state.config.Pause(r.Retries); pause > 0 {
		if at := now().Add(pause); at.After(r.NotBefore) {
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

// dependOn makes a task wait until another one is completed. If it need not exist, an unknown one is ignored.
func (s *Step) dependOn(r *Record, id string, must bool) error {
	other, err := s.state.Find(id)
	switch {
	case err != nil && must:
		return fmt.Errorf("it cannot wait for %.100q: %w", id, err)
	case err != nil:
		return nil
	case other.ID == r.ID:
		return fmt.Errorf("%w: %s cannot wait for itself", ErrInvalid, r.ID)
	}
	r.DependsOn = Sorted(append(r.DependsOn[:len(r.DependsOn):len(r.DependsOn)], other.ID))
	return nil
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
