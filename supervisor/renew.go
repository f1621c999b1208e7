package supervisor

import (
	"time"
)

// renew is ReplaceChild and, if counted, ReplaceCounted: a restart without a
// failure. It reaches no limit. A counted one is not begun where a limit that
// counts starts would hold it: what runs is better than what is held.
func (k *core) renew(c *child, why Reason, counted bool) error {
	switch {
	case k.op == opDown:
		return ErrStopping
	case k.op == opGroup, k.op == opInit && !k.alone(), c.state == Stopping:
		return ErrRestarting
	case c.state != Running && c.state != Starting:
		return ErrNotRunning
	case k.paused:
		return ErrPaused
	}
	p := planReplace
	if counted {
		if at := k.roomAt(c); at > k.now {
			return &HeldError{Until: k.epoch.Add(at)}
		}
		p = planCounted
	}
	c.rest().cause = nil
	k.stop(c, p, why)
	return nil
}

// restartCounted is RestartCounted. A nil error means that the restart is under way, or done.
func (k *core) restartCounted(c *child, cause error) error {
	if err := k.open(); err != nil {
		return err
	}
	switch {
	case k.op == opGroup, k.op == opInit && !k.alone(), c.state == Stopping, c.state == Waiting, c.state.held(),
		c.state == Restarting && !k.alone():
		return ErrRestarting
	case c.state.alive():
		if c.state == Running && c.policy.backoff.stable(k.now-c.began) {
			k.succeeded(c)
		}
		c.rest().cause = cause
		k.stop(c, planCounted, ReasonReplaced)
		return nil
	}
	k.cancel(c)
	return k.startCounted(c, cause)
}

// startCounted starts c, which does not run, or holds it if its limit has no room.
func (k *core) startCounted(c *child, cause error) error {
	l, w := k.governs(c)
	counts := l.Max >= 0 && l.Count != CountFailures && (l.OnLimit == Quarantine || l.OnLimit == GiveUp)
	if !counts || w.count(k.now, l) < l.Max {
		if counts && l.Count != CountStarts { // begin counts starts
			w.add(k.now, l)
		}
		c.restarts++
		k.begin(c, originCounted)
		return nil
	}
	exit := Exit{Kind: Failure, Err: cause}
	c.rest().exit = exit
	if l.OnLimit == Quarantine && l.Max > 0 && l.Within > 0 {
		wait := w.room(l) - k.now
		k.set(c, Quarantined, ReasonLimitQuarantine)
		k.tellLimit(c, wait, exit)
		k.timer(c, wait)
	} else { // there is no window that could get room
		k.set(c, GivenUp, ReasonLimitGiveUp)
		k.tellLimit(c, 0, exit)
	}
	return &LimitError{Path: k.path, Child: c.id, Limit: l, Exit: exit}
}

// roomAt returns the time at which a limit of starts allows another start of c: now, or later.
func (k *core) roomAt(c *child) time.Duration {
	l, w := k.governs(c)
	if l.Count != CountStarts || l.OnLimit != Quarantine || l.Max <= 0 || l.Within <= 0 || w.count(k.now, l) < l.Max {
		return k.now
	}
	return w.room(l)
}

// renewed starts c, which was stopped to be started again.
func (k *core) renewed(c *child) {
	if k.paused {
		k.set(c, Paused, ReasonLimitPause)
		return
	}
	if cause := c.rest().cause; cause != nil {
		c.more.cause = nil
		if err := k.startCounted(c, cause); err != nil {
			k.tellStart(c, err)
		}
		return
	}
	by := originReplace
	if c.plan == planCounted {
		by = originCounted
	}
	c.restarts++
	k.begin(c, by)
}
