package supervisor

// pause holds everything that would start, until Resume.
func (k *core) pause(c *child, exit Exit) {
	if k.probing {
		k.pausedBecause(ReasonLimitPause)
	}
	k.paused, k.probing, k.probe = true, false, nil
	k.tellLimit(c, 0, exit)
}

// probeFailed pauses again if c, which has failed, is the probe.
func (k *core) probeFailed(c *child, exit Exit) {
	if k.probing && c == k.probe {
		k.pause(c, exit)
	}
}

// timeUp handles the timer of c: the end of its delay, of its quarantine, or of
// the time after which a probe counts as a success.
func (k *core) timeUp(c *child) {
	c.rest().nextAt = 0
	switch c.state {
	case Restarting:
		k.release(c)
	case Quarantined:
		// Other starts may have filled the window meanwhile.
		if l, w := k.governs(c); l.OnLimit == Quarantine && l.Max > 0 && l.Within > 0 && w.count(k.now, l) >= l.Max {
			k.timer(c, w.room(l)-k.now)
			return
		}
		k.unhold(c, ReasonLimitQuarantine)
	case Running: // the probe has run long enough
		k.succeeded(c)
	}
}

// unhold releases c, which a limit holds.
func (k *core) unhold(c *child, why Reason) {
	if k.hooked {
		k.events = append(k.events, LimitLifted{k.header(c), why})
	}
	if l, w := k.governs(c); l.Count == CountRestarts || l.Count == CountConsecutive {
		w.add(k.now, l)
	}
	c.restarts++
	k.release(c)
}

// release restarts c, whose restart was pending, with the group that waits for it.
func (k *core) release(c *child) {
	k.cancel(c)
	switch {
	case k.paused:
		k.set(c, Paused, ReasonLimitPause)
	case k.alone() && k.probing && k.probe != nil:
		k.set(c, Paused, ReasonProbe)
	case k.alone(), k.op != opGroup, c.seq < k.first().seq: // or failed before Update made it a group
		k.begin(c, originRestart)
	default:
		k.set(c, Waiting, c.reason)
		if k.trigger == c {
			k.due = true
			if k.phase == waiting {
				k.startGroup()
			}
		}
	}
}

// releasePaused releases paused children: all of them, or, after Resume, only the
// first one, as the probe.
func (k *core) releasePaused() {
	for c := k.head; c != nil; c = c.next {
		if c.state == Paused {
			k.unhold(c, ReasonLimitPause)
			if k.probing {
				k.pausedBecause(ReasonProbe)
				return
			}
		}
	}
}

// pausedBecause sets the reason of paused children.
func (k *core) pausedBecause(why Reason) {
	for c := k.head; c != nil; c = c.next {
		if c.state == Paused {
			c.reason = why
		}
	}
}
