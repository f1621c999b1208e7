package supervisor

import (
	"errors"
	"time"
)

// This file decides what follows the end of an incarnation. Nothing is restarted
// on any other path.

// exited handles the end of the incarnation of c.
func (k *core) exited(c *child, exit Exit) {
	switch c.state {
	case Starting: // before it was ready
		if exit.Err == nil {
			exit = Exit{Kind: Failure, Err: ErrNotReady}
		}
		k.startFailed(c, exit)
	case Running:
		k.ended(c, exit)
	case Stopping:
		k.stopped(c, exit)
	}
}

// ended handles the end of a running incarnation that was not asked to stop.
func (k *core) ended(c *child, exit Exit) {
	uptime := k.now - c.began
	c.rest().exit = exit
	if c.more.lived > 0 {
		uptime = c.more.lived
	}
	if uptime >= c.policy.backoff.shortLife() {
		c.more.short = 0
	} else if !retries(exit) {
		c.more.short++
	}
	if c == k.probe {
		k.cancel(c)
	}
	if retries(exit) && k.op != opDown && !k.stoppedNext(c) {
		k.tellExit(c, exit, uptime, k.retryDecision(c, exit))
		k.retry(c, exit)
		return
	}
	stable := c.policy.backoff.stable(uptime)
	l, w := k.governs(c)
	// Where starts are counted, an early exit with code 0 is no success: its delay
	// grows, instead of using up the limit within seconds.
	success := stable || exit.Clean() && (l.Count != CountStarts || c == k.probe)
	if success {
		k.succeeded(c)
	}
	if exit.Clean() && stable && c.counted && l.Count == CountStarts && w != &k.win {
		w.takeBack(k.now, l)
	}

	switch {
	case k.op == opDown: // the supervisor is stopping, and nothing is restarted
		k.tellExit(c, exit, uptime, Decision{Action: Leave, Reason: ReasonShutdown})
		k.set(c, Stopped, ReasonShutdown)
		k.proceedDown()
		return
	case k.stoppedNext(c):
		// It would have been stopped next, to be restarted with its group.
		k.tellExit(c, exit, uptime, Decision{Action: RestartIt, Reason: ReasonSibling})
		k.putAside(c)
		return
	}

	reason := ReasonPermanent
	switch {
	case c.policy.restart == Permanent:
	case c.policy.restart == Transient && !exit.Clean():
		reason = ReasonTransientFailed
	case c.policy.restart == Transient:
		k.tellExit(c, exit, uptime, Decision{Action: Leave, Reason: ReasonTransientClean})
		if k.strategy == SimpleOneForOne { // an instance is listed only while it lives
			k.forget(c)
		} else {
			k.set(c, Stopped, ReasonTransientClean)
		}
		k.autoShutdown(c)
		return
	default:
		k.tellExit(c, exit, uptime, Decision{Action: Forget, Reason: ReasonTemporary})
		k.countFailure(c, exit)
		if !exit.Clean() {
			k.probeFailed(c, exit)
		}
		k.forget(c)
		k.autoShutdown(c)
		return
	}

	k.countFailure(c, exit)
	if l, w := k.governs(c); l.OnLimit == GiveUp && errors.Is(exit.Err, ErrDoNotRestart) {
		w.fill(k.now, l)
	}
	d, hold := k.decideRestart(c, reason, !exit.Clean() || !success)
	k.tellExit(c, exit, uptime, d)
	k.applyDecision(c, d, hold, exit)
}

// stoppedNext reports whether c would be stopped next, to be restarted with its group.
func (k *core) stoppedNext(c *child) bool {
	return k.op == opGroup && k.phase == stopping && c.seq >= k.from.seq
}

// minRetry is the least time from a start to a retry.
const minRetry = time.Second

// retries reports whether an exit says when to try again.
func retries(exit Exit) bool {
	_, ok := errors.AsType[*RetryError](exit.Err)
	return ok
}

// retryDecision returns the decision about a child whose exit says when to try again.
func (k *core) retryDecision(c *child, exit Exit) Decision {
	e, _ := errors.AsType[*RetryError](exit.Err)
	delay := max(0, c.began+minRetry-k.now, e.At.Sub(k.epoch)-k.now)
	return Decision{Action: RestartIt, Reason: ReasonRetry, Delay: delay}
}

// retry makes c, which does not run, wait for the time that its exit says. Its start is not counted.
func (k *core) retry(c *child, exit Exit) {
	if l, w := k.governs(c); c.counted && l.Count == CountStarts {
		w.takeBack(k.now, l)
		c.counted = false
	}
	d := k.retryDecision(c, exit)
	k.set(c, Restarting, d.Reason)
	k.timer(c, d.Delay)
	if !k.alone() {
		k.regroup(c, false)
	}
}

// countFailure counts for limits that count failures. Failures of children that
// are not restarted count, too: they may be a sign of a common fault.
func (k *core) countFailure(c *child, exit Exit) {
	l, w := k.governs(c)
	if l.Count != CountFailures || exit.Clean() {
		return
	}
	w.add(k.now, l)
	if c.policy.restart == Temporary && l.OnLimit == Pause && !k.paused && l.Max >= 0 && w.count(k.now, l) >= l.Max {
		k.pause(c, exit)
	}
}

// succeeded resets the backoff and consecutive counts after a clean exit or a
// long run. It is the success that a probe waits for.
func (k *core) succeeded(c *child) {
	c.attempt = 0
	if l, w := k.governs(c); l.Count == CountConsecutive {
		w.clear()
	}
	if k.probing && c == k.probe {
		k.probing, k.probe = false, nil
		if k.hooked {
			k.events = append(k.events, LimitLifted{k.header(nil), ReasonProbe})
		}
		k.releasePaused()
	}
}

// startFailed handles a failed start of c, which has ended its incarnation.
func (k *core) startFailed(c *child, exit Exit) {
	if exit.Kind == Ignored {
		k.ignored(c)
		return
	}
	err := exit.Err
	if c.adopts() {
		c.more.adopt = false
	}
	c.rest().exit = exit
	if !retries(exit) {
		c.more.short++
	}
	failed := &StartError{ID: c.id, Err: err}
	next := c.next
	switch {
	case k.op == opDown:
		k.tellFailed(c, err, Decision{Action: Leave, Reason: ReasonShutdown})
		k.set(c, Stopped, ReasonShutdown)
		k.tellStart(c, failed)
		k.proceedDown()
	case retries(exit):
		by := c.origin
		k.tellFailed(c, err, k.retryDecision(c, exit))
		k.tellStart(c, failed)
		k.retry(c, exit)
		if by == originGroup && k.alone() {
			k.startNext(c, next)
		}
	case c.origin == originAdd:
		k.tellFailed(c, err, Decision{Action: Forget, Reason: ReasonStartFailed})
		k.probeFailed(c, exit)
		k.forget(c)
		k.tellStart(c, failed)
		k.startNext(c, next)
	case c.origin == originManual:
		k.tellFailed(c, err, Decision{Action: Leave, Reason: ReasonStartFailed})
		k.probeFailed(c, exit)
		k.set(c, Stopped, ReasonStartFailed)
		k.tellStart(c, failed)
	case c.origin == originGroup && !k.up && k.onStart == Rollback:
		k.tellFailed(c, err, Decision{Action: EndSelf, Reason: ReasonStartFailed})
		k.set(c, Stopped, ReasonStartFailed)
		k.shutdown(Exit{Kind: Failure, Err: failed}, ReasonStartFailed)
	case c.policy.restart == Temporary:
		k.tellFailed(c, err, Decision{Action: Forget, Reason: ReasonTemporary})
		k.countFailure(c, exit)
		k.probeFailed(c, exit)
		k.forget(c)
		if c.origin.keeps() {
			k.tellStart(c, failed)
		}
		k.startNext(c, next)
	default:
		by := c.origin
		k.countFailure(c, exit)
		d, hold := k.decideRestart(c, ReasonStartFailed, true)
		k.tellFailed(c, err, d)
		if by.keeps() {
			k.tellStart(c, failed)
		}
		k.applyDecision(c, d, hold, exit)
		if by == originGroup && k.alone() {
			k.startNext(c, next)
		}
	}
}

// ignored handles a start of c that returned ErrIgnore.
func (k *core) ignored(c *child) {
	if k.hooked {
		k.events = append(k.events, ChildIgnored{k.header(c)})
	}
	next := c.next
	if c.policy.restart == Temporary || k.strategy == SimpleOneForOne {
		k.forget(c)
	} else {
		k.set(c, Stopped, ReasonIgnored)
	}
	k.tellStart(c, nil)
	if k.op == opDown {
		k.proceedDown()
		return
	}
	k.startNext(c, next)
}

// governs returns the limit that counts c's restarts, and its window.
func (k *core) governs(c *child) (Limit, *window) {
	switch {
	case c.policy.limit != Limit{}:
		return c.policy.limit, &c.rest().win
	case k.limit.Scope == ScopeChild:
		return k.limit, &c.rest().win
	}
	return k.limit, &k.win
}

// decideRestart decides about a due restart of c: now, after a delay, or held by
// its limit. The second result is the state of a held child.
func (k *core) decideRestart(c *child, why Reason, failed bool) (Decision, State) {
	l, w := k.governs(c)
	switch {
	case k.probing && c == k.probe && failed:
		k.probe = nil
		return Decision{Action: HoldIt, Reason: ReasonLimitPause}, Paused
	case k.paused:
		return Decision{Action: HoldIt, Reason: ReasonLimitPause}, Paused
	case k.alone() && k.probing && c != k.probe && k.probe != nil:
		return Decision{Action: HoldIt, Reason: ReasonProbe}, Paused
	}
	if l.Max >= 0 && w.count(k.now, l) >= l.Max {
		switch l.OnLimit {
		case Escalate:
			return Decision{Action: EndSelf, Reason: ReasonLimitEscalate}, Stopped
		case Quarantine:
			if l.Within > 0 && l.Max > 0 {
				return Decision{Action: HoldIt, Reason: ReasonLimitQuarantine, Delay: w.room(l) - k.now}, Quarantined
			}
			return Decision{Action: HoldIt, Reason: ReasonLimitGiveUp}, GivenUp // the window never gets room
		case Pause:
			return Decision{Action: HoldIt, Reason: ReasonLimitPause}, Paused
		}
		return Decision{Action: HoldIt, Reason: ReasonLimitGiveUp}, GivenUp
	}
	// A restart after a success is no attempt at recovery, and has the first delay.
	if l.Count == CountRestarts || (l.Count == CountConsecutive && failed) {
		w.add(k.now, l)
	}
	d := c.policy.backoff.Delay(int(c.attempt))
	if c.policy.backoff.Jitter && d > 0 {
		d = k.rand(d)
	}
	attempt := int(c.attempt) + 1
	if failed && c.attempt < 1<<30 {
		c.attempt++
	}
	c.restarts++
	return Decision{Action: RestartIt, Reason: why, Delay: d, Attempt: attempt}, Stopped
}

// applyDecision carries out a decision of decideRestart about c, which does not run.
func (k *core) applyDecision(c *child, d Decision, hold State, exit Exit) {
	switch d.Action {
	case EndSelf:
		l, _ := k.governs(c)
		err := &LimitError{Path: k.path, Child: c.id, Limit: l, Exit: exit}
		k.tellLimit(c, 0, exit)
		k.set(c, Stopped, d.Reason)
		k.shutdown(Exit{Kind: Failure, Err: err}, d.Reason)
		return
	case HoldIt:
		k.set(c, hold, d.Reason)
		switch {
		case hold == Quarantined:
			k.tellLimit(c, d.Delay, exit)
			k.timer(c, d.Delay)
		case hold == GivenUp:
			k.tellLimit(c, 0, exit)
		case !k.paused && d.Reason == ReasonLimitPause:
			k.pause(c, exit)
		}
	case RestartIt:
		k.set(c, Restarting, d.Reason)
		if d.Delay > 0 {
			k.timer(c, d.Delay)
		}
	}
	switch {
	case !k.alone():
		k.regroup(c, d.Action == RestartIt && d.Delay == 0)
	case d.Action == RestartIt && d.Delay == 0:
		k.begin(c, originRestart)
	}
}

// autoShutdown handles the end of a child that has ended on its own for good.
// (OTP do_auto_shutdown.)
func (k *core) autoShutdown(c *child) {
	if !c.policy.significant {
		return
	}
	switch k.auto {
	case AnySignificant:
	case AllSignificant:
		if k.tally.present > 0 || (k.strategy == SimpleOneForOne && k.tally.specs > 0) {
			return
		}
	default:
		return
	}
	if !k.up {
		k.ending = true
		return
	}
	k.shutdown(Exit{Kind: ShutDown}, ReasonSignificant)
}

func (k *core) tellExit(c *child, exit Exit, uptime time.Duration, d Decision) {
	if k.hooked {
		k.events = append(k.events, ChildExited{k.header(c), exit, uptime, d})
	}
}

func (k *core) tellFailed(c *child, err error, d Decision) {
	if k.hooked {
		k.events = append(k.events, ChildStartFailed{k.header(c), err, d, k.now - c.began})
	}
}

func (k *core) tellLimit(c *child, until time.Duration, exit Exit) {
	if !k.hooked {
		return
	}
	l, _ := k.governs(c)
	e := LimitReached{EventHeader: k.header(c), Limit: l, Exit: exit}
	if until > 0 {
		e.Until = k.epoch.Add(k.now + until)
	}
	k.events = append(k.events, e)
}

// tellStart ends the wait of callers for the start of c.
func (k *core) tellStart(c *child, err error) {
	k.out = append(k.out, action{do: tellStarted, c: c, err: err})
}
