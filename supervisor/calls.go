package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"sync"
)

// do runs f in the loop and waits for it. It fails if the supervisor has ended.
func (s *Supervisor) do(f func()) error {
	done := make(chan struct{})
	if !s.box.put(&call{func() { f(); close(done) }}) {
		return ErrNoSupervisor
	}
	select {
	case <-done:
		return nil
	case <-s.done:
	}
	select {
	case <-done:
		return nil
	default:
		return ErrNoSupervisor
	}
}

// wait runs f in the loop. If f returns a child and no error, wait waits
// for the end of its start (or of its stop) and returns the result of that.
func (s *Supervisor) wait(ctx context.Context, stop bool, f func() (*child, error)) (ChildInfo, error) {
	w := s.waiters.get()
	w.f, w.stop = f, stop
	if !s.box.put(w) {
		return ChildInfo{}, ErrNoSupervisor
	}
	select {
	case <-w.done:
		info, err := w.info, w.err
		s.waiters.put(w)
		return info, err
	case <-ctx.Done():
		return ChildInfo{}, context.Cause(ctx)
	case <-s.done:
	}
	select {
	case <-w.done:
		return w.info, w.err
	default:
		return ChildInfo{}, ErrNoSupervisor
	}
}

// StartChild adds a child at the end of the start order and waits until it
// has started. A child whose start returns ErrIgnore is listed as Stopped (a
// temporary one is not listed), without an error. The end of ctx ends the
// wait, not the start. Errors: *SpecError, ErrAlreadyStarted,
// ErrAlreadyPresent, *StartError (the child is then not listed),
// ErrTerminated, ErrPaused, ErrStopping, ErrSimpleOneForOne, ErrNoSupervisor.
func (s *Supervisor) StartChild(ctx context.Context, spec ChildSpec) (ChildInfo, error) {
	return s.wait(ctx, false, func() (*child, error) {
		if s.core.strategy == SimpleOneForOne {
			return nil, s.core.fail(spec.ID, ErrSimpleOneForOne)
		}
		if err := spec.validate(s.core.path, s.core.auto, s.depth); err != nil {
			return nil, err
		}
		c, err := s.core.add(spec)
		return c, s.core.fail(spec.ID, err)
	})
}

// StartInstance adds an instance to a SimpleOneForOne supervisor and waits
// until it has started. The ID must be new; arg is in the child's Self, in
// every incarnation. An instance whose start returns ErrIgnore is not listed.
// The errors are those of StartChild.
func (s *Supervisor) StartInstance(ctx context.Context, id string, arg any) (ChildInfo, error) {
	return s.wait(ctx, false, func() (*child, error) {
		if s.core.strategy != SimpleOneForOne {
			return nil, s.core.fail(id, fmt.Errorf("only a simple_one_for_one supervisor has instances, this is %v",
				s.core.strategy))
		}
		if problem := idProblem(id); problem != "" {
			return nil, &SpecError{Path: s.core.path + "/" + id, Field: "ID", Problem: problem}
		}
		c, err := s.core.addInstance(id, arg)
		return c, s.core.fail(id, err)
	})
}

// TerminateChild stops a child and waits until it has ended. It stays listed,
// unless it is temporary or an instance, and a restart of its group starts it
// again, as in OTP; see SuspendChild. A pending restart is cancelled. It is no error
// if the child does not run. Events and ChildInfo have why as the reason; the
// default is ReasonTerminated. Errors: ErrNotFound, ErrNoSupervisor.
func (s *Supervisor) TerminateChild(ctx context.Context, id string, why ...Reason) error {
	return s.bringDown(ctx, id, planDown, given(why, ReasonTerminated))
}

// SuspendChild stops a child as TerminateChild does, and keeps it listed and down
// until RestartChild, even when its group restarts. A child that is suspended
// already gets the new reason.
func (s *Supervisor) SuspendChild(ctx context.Context, id string, why ...Reason) error {
	return s.bringDown(ctx, id, planSuspend, given(why, ReasonTerminated))
}

// given returns the reason of the caller, or the default of the call.
func given(why []Reason, otherwise Reason) Reason {
	if len(why) == 0 {
		return otherwise
	}
	return why[0]
}

func (s *Supervisor) bringDown(ctx context.Context, id string, p plan, why Reason) error {
	_, err := s.wait(ctx, true, func() (*child, error) {
		c, err := s.core.find(id)
		if err != nil || !s.core.terminate(c, p, why) {
			return nil, err
		}
		return c, nil
	})
	return err
}

// started calls begin, which starts the child, and waits for the end of the start.
func (s *Supervisor) started(ctx context.Context, id string, begin func(*child) error) (ChildInfo, error) {
	return s.wait(ctx, false, func() (*child, error) {
		if s.core.strategy == SimpleOneForOne {
			return nil, s.core.fail(id, ErrSimpleOneForOne)
		}
		c, err := s.core.find(id)
		if err != nil {
			return nil, err
		}
		return c, s.core.fail(id, begin(c))
	})
}

// RestartChild starts a child that is listed and down, and waits until it has
// started. Nothing has failed: it clears the window of a limit that counts the
// starts of each child on its own, and counts as the first start in it; other
// limits do not count it. A child that was given up, by a limit that holds it
// alone, runs once: the count stays until it succeeds. Errors: ErrRunning, ErrRestarting, ErrNotFound, *StartError (it
// stays listed), ErrTerminated, ErrPaused, ErrStopping, ErrSimpleOneForOne, ErrNoSupervisor.
func (s *Supervisor) RestartChild(ctx context.Context, id string) (ChildInfo, error) {
	return s.started(ctx, id, s.core.restart)
}

// EnsureChild starts a child that is listed and does not run, or waits until
// it is started (ChildSpec.ManualStart), and waits until it has started. Unlike
// RestartChild it means to keep the child: a start that fails is dealt with as
// a restart that fails, counted and tried again, and the *StartError says only
// that the first try did not succeed. A limit that counts starts and has no
// room holds it, too. What was suspended stays down. Errors:
// ErrRunning, ErrRestarting (also: held by a limit, or started with its group),
// ErrPaused (it starts after Resume), ErrTerminated (it is suspended),
// ErrNotFound, *StartError, ErrStopping, ErrSimpleOneForOne, ErrNoSupervisor.
func (s *Supervisor) EnsureChild(ctx context.Context, id string) (ChildInfo, error) {
	return s.started(ctx, id, s.core.ensure)
}

// ReplaceChild stops a child that runs and starts it again, and waits until it
// has started. Nothing has failed: no limit counts it, or holds it. A
// start that fails is dealt with as EnsureChild's. If the child is stopped by
// another call meanwhile, that holds (ErrTerminated). Errors: ErrNotRunning,
// ErrRestarting (also: it is being stopped, or started with its group),
// ErrPaused, ErrNotFound, *StartError, ErrTerminated, ErrStopping,
// ErrSimpleOneForOne, ErrNoSupervisor. Events give why as the reason,
// ReasonReplaced if there is none.
func (s *Supervisor) ReplaceChild(ctx context.Context, id string, why ...Reason) (ChildInfo, error) {
	return s.started(ctx, id, func(c *child) error { return s.core.renew(c, given(why, ReasonReplaced), false) })
}

// ReplaceCounted is ReplaceChild for a cause that may come again and again, such as
// a request of the child itself: the start counts for a limit that counts
// starts. While that has no room, nothing is done (*HeldError).
func (s *Supervisor) ReplaceCounted(ctx context.Context, id string, why ...Reason) (ChildInfo, error) {
	return s.started(ctx, id, func(c *child) error { return s.core.renew(c, given(why, ReasonReplaced), true) })
}

// RestartCounted restarts a child for a cause that may come again and again,
// such as a rule of an automaton: unlike one by RestartChild or ReplaceChild, the
// restart counts for a limit that quarantines or gives up, and if that has no room
// the child is held, whether it ran or not. It does not count for one that escalates
// or pauses, which would let it stop others, nor for one of failures. The cause is in the Exit of the
// LimitReached event then. A child that is down, or waits for its restart, is
// started. Errors: ErrRestarting (also: held already, or started with its group),
// *LimitError (it is held now), ErrPaused, ErrNotFound, *StartError, ErrTerminated,
// ErrStopping, ErrSimpleOneForOne, ErrNoSupervisor.
func (s *Supervisor) RestartCounted(ctx context.Context, id string, cause error) (ChildInfo, error) {
	return s.started(ctx, id, func(c *child) error { return s.core.restartCounted(c, cause) })
}

// DeleteChild takes a child that is down from the list. Errors: ErrRunning,
// ErrRestarting, ErrNotFound, ErrSimpleOneForOne, ErrNoSupervisor.
func (s *Supervisor) DeleteChild(id string) error {
	var err error
	lost := s.do(func() {
		if s.core.strategy == SimpleOneForOne {
			err = s.core.fail(id, ErrSimpleOneForOne)
			return
		}
		var c *child
		if c, err = s.core.find(id); err == nil {
			err = s.core.fail(id, s.core.remove(c))
		}
	})
	return cmp.Or(lost, err)
}

// Reset clears the counters that govern a child. A restart that is pending or
// held happens now. Only Resume ends a pause.
// Errors: ErrNotFound, ErrNoSupervisor.
func (s *Supervisor) Reset(id string) error {
	return s.with(id, func(c *child) error {
		s.core.reset(c)
		return nil
	})
}

// Retry starts a child now that has said when to try again (RetryError).
// Errors: ErrNotWaiting, ErrNotFound, ErrNoSupervisor.
func (s *Supervisor) Retry(id string) error {
	return s.with(id, func(c *child) error {
		if c.state != Restarting || c.reason != ReasonRetry {
			return ErrNotWaiting
		}
		s.core.release(c)
		return nil
	})
}

// with calls f with a child in the loop.
func (s *Supervisor) with(id string, f func(*child) error) error {
	var err error
	lost := s.do(func() {
		var c *child
		if c, err = s.core.find(id); err == nil {
			err = s.core.fail(id, f(c))
		}
	})
	return cmp.Or(lost, err)
}

// Resume ends a pause: the first child that starts now is a probe, and the
// others follow once it has succeeded. Nothing happens without a pause.
func (s *Supervisor) Resume() error { return s.do(s.core.resume) }

// Hold prevents WhenDone from ending this supervisor, and those above it, until
// release is called. It is for a caller that stops a child to start it again: no child
// runs in between, but the work is not done. release may be called more than once.
func (s *Supervisor) Hold() (release func()) {
	s.do(func() { s.core.holds++ }) // one that has ended needs no hold
	return sync.OnceFunc(func() { s.do(func() { s.core.holds-- }) })
}

// StopTogether makes the supervisor stop all of its children at once when it ends, as
// Spec.StopTogether does. It also applies if the supervisor is ending already. It is for
// callers that order the stops themselves. Update resets it to its Spec.
func (s *Supervisor) StopTogether() { s.do(s.core.stopTogether) }

// Children lists the children in start order.
func (s *Supervisor) Children() ([]ChildInfo, error) {
	var all []ChildInfo
	err := s.do(func() {
		all = make([]ChildInfo, 0, s.core.tally.specs)
		for c := s.core.head; c != nil; c = c.next {
			all = append(all, s.core.info(c))
		}
	})
	return all, err
}

// Child looks up one child.
func (s *Supervisor) Child(id string) (ChildInfo, error) {
	var i ChildInfo
	err := s.with(id, func(c *child) error {
		i = s.core.info(c)
		return nil
	})
	return i, err
}

// Count counts the children.
func (s *Supervisor) Count() (Counts, error) {
	var n Counts
	err := s.do(func() {
		n = s.core.counts()
		n.Abandoned = s.abandoned
	})
	return n, err
}

// ChildSpec returns the specification of a child, with the defaults filled in.
func (s *Supervisor) ChildSpec(id string) (ChildSpec, error) {
	var spec ChildSpec
	err := s.with(id, func(c *child) error {
		spec = c.spec()
		return nil
	})
	return spec, err
}
