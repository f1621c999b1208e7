package supervisor

import "fmt"

// This file has the calls. Each returns what OTP's call returns.

// find returns the child with an ID.
func (k *core) find(id string) (*child, error) {
	if c := k.byID[id]; c != nil {
		return c, nil
	}
	return nil, k.fail(id, ErrNotFound)
}

// fail adds the path of a child to an error about it.
func (k *core) fail(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s/%s: %w", k.path, id, err)
}

// add is StartChild. A nil error means that the start is in progress, or done.
func (k *core) add(spec ChildSpec) (*child, error) {
	if err := k.open(); err != nil {
		return nil, err
	}
	if c := k.byID[spec.ID]; c != nil {
		if c.state.alive() {
			return c, ErrAlreadyStarted
		}
		return c, ErrAlreadyPresent
	}
	spec.ManualStart = false // this call starts it
	c := k.newChild(spec)
	c.listed = k.over[c.id] // a temporary child of the Spec is added again
	delete(k.over, c.id)
	if spec.Saved != nil {
		c.gen = spec.Saved.Incarnation
	}
	if was, ok := k.retained.of(k.path + "/" + c.id); ok {
		c.gen = max(c.gen, was.gen)
	}
	k.append(c)
	return c, nil
}

// addInstance is StartInstance.
func (k *core) addInstance(id string, arg any) (*child, error) {
	if err := k.open(); err != nil {
		return nil, err
	}
	if c := k.byID[id]; c != nil {
		if c.state.alive() {
			return c, ErrAlreadyStarted
		}
		return c, ErrAlreadyPresent
	}
	t := k.template
	c := &child{id: id, work: t.work, policy: t.policy}
	if arg != nil {
		c.rest().arg = arg
	}
	k.append(c)
	return c, nil
}

// open reports why nothing can be started now.
func (k *core) open() error {
	switch {
	case k.op == opDown:
		return ErrStopping
	case k.paused, k.probing && k.probe != nil:
		return ErrPaused
	}
	return nil
}

// append starts a new child at the end of the order. While a group is being
// restarted, the child waits for its place in the order.
func (k *core) append(c *child) {
	k.link(c)
	if k.op == opGroup || k.op == opInit {
		k.set(c, Waiting, ReasonManual)
		c.added = true
		return
	}
	c.reason = ReasonManual
	k.begin(c, originAdd)
}

// terminate is TerminateChild. It cancels a pending restart, and reports whether the
// child has yet to end.
func (k *core) terminate(c *child, p plan, why Reason) (pending bool) {
	switch c.state {
	case Stopped, Suspended:
		switch {
		case p == planSuspend:
			if c.state != Suspended || c.reason != why {
				k.set(c, Suspended, why)
				k.tellChanged(c, why)
			}
		case c.policy.restart == Temporary || k.strategy == SimpleOneForOne:
			k.forget(c) // it was suspended
		}
		return false
	case Running, Starting:
		k.suspending(c, why)
		k.stop(c, p, why)
		return true
	case Stopping:
		k.suspending(c, why)
		c.plan, c.reason = p, why
		return true
	}
	k.cancel(c)
	k.tellStart(c, ErrTerminated)
	switch {
	case p == planSuspend:
		k.set(c, Suspended, why)
	case c.policy.restart == Temporary || k.strategy == SimpleOneForOne:
		k.forget(c)
	default:
		k.set(c, Stopped, why)
	}
	k.tellChanged(c, why)
	if k.op == opGroup && k.trigger == c {
		k.trigger = nil
		if k.phase == waiting {
			k.dissolve()
		}
	}
	return false
}

// suspending notes that a stopping supervisor is suspended and may be resumed.
func (k *core) suspending(c *child, why Reason) {
	if c.policy.typ == SupervisorType && why == ReasonSuspended {
		k.retained.suspend(k.path+"/"+c.id, true)
	}
}

// restart is RestartChild. A nil error means that the start is in progress, or done.
func (k *core) restart(c *child) error {
	if err := k.open(); err != nil {
		return err
	}
	switch {
	case c.state.alive():
		return ErrRunning
	case c.state == GivenUp && k.alone(): // it runs once, and keeps its count
	case c.state.present(), c.state == Waiting:
		return ErrRestarting
	}
	c.reason = ReasonManual
	if c.policy.typ == SupervisorType {
		k.retained.clearCounts(k.path + "/" + c.id)
	}
	if l, w := k.governs(c); l.Count == CountStarts && w != &k.win && c.state != GivenUp {
		w.clear()
		c.attempt = 0
	}
	if c.more != nil {
		c.more.short = 0
	}
	k.begin(c, originManual)
	return nil
}

// ensure is EnsureChild. A nil error means that the start is in progress, or done.
func (k *core) ensure(c *child) error {
	switch {
	case k.op == opDown:
		return ErrStopping
	case c.state.alive():
		return ErrRunning
	case c.state == Suspended:
		return ErrTerminated
	case c.state.present(), k.op == opGroup, k.op == opInit && !k.alone():
		return ErrRestarting // or it is started with its group
	case k.paused:
		k.set(c, Paused, ReasonLimitPause)
		return ErrPaused
	case k.probing && k.probe != nil:
		k.set(c, Paused, ReasonProbe)
		return ErrPaused
	}
	if at := k.roomAt(c); at > k.now && !c.adopts() {
		var last Exit
		if c.more != nil {
			last = c.more.exit
		}
		k.set(c, Quarantined, ReasonLimitQuarantine)
		k.tellLimit(c, at-k.now, last)
		k.timer(c, at-k.now)
		return ErrRestarting
	}
	k.begin(c, originEnsure)
	return nil
}

// remove is DeleteChild.
func (k *core) remove(c *child) error {
	switch {
	case c.state.alive():
		return ErrRunning
	case c.state.present():
		return ErrRestarting
	}
	k.tellStart(c, ErrTerminated)
	k.forget(c)
	delete(k.over, c.id)
	k.retained.drop(k.path + "/" + c.id)
	return nil
}

// reset clears the counters of c and of the limit that governs it; a pending
// restart happens now.
func (k *core) reset(c *child) {
	_, w := k.governs(c)
	w.clear()
	c.attempt = 0
	if c.more != nil {
		c.more.short = 0
	}
	switch c.state {
	case Restarting:
		k.release(c)
	case Quarantined, GivenUp:
		k.cancel(c)
		k.unhold(c, ReasonReset)
	default:
		k.tellChanged(c, ReasonReset)
	}
}

func (k *core) tellChanged(c *child, why Reason) {
	if k.hooked {
		k.events = append(k.events, ChildChanged{k.header(c), c.state, why})
	}
}

// resume is Resume: the end of a pause, by a probe.
func (k *core) resume() {
	if !k.paused {
		return
	}
	k.paused, k.probing, k.probe = false, true, nil
	k.clearWindows()
	if k.hooked {
		k.events = append(k.events, LimitLifted{k.header(nil), ReasonManual})
	}
	k.releasePaused()
}

// clearWindows clears the counts of all limits.
func (k *core) clearWindows() {
	k.win.clear()
	for c := k.head; c != nil; c = c.next {
		if c.more != nil {
			c.more.win.clear()
		}
	}
}

// reconsider releases children whose changed limit has room.
func (k *core) reconsider() {
	for c := k.head; c != nil; c = c.next {
		if c.state != Quarantined && c.state != GivenUp {
			continue
		}
		if l, w := k.governs(c); l.Max < 0 || w.count(k.now, l) < l.Max {
			k.cancel(c)
			k.unhold(c, ReasonReset)
		}
	}
}

// list lists a child of the Spec, in state s if it has no saved or retained state.
func (k *core) list(c *child, spec ChildSpec, s State) {
	c.state, c.listed = s, true
	if spec.ManualStart {
		c.state, c.reason = Waiting, ReasonDeferred
	}
	k.link(c)
	saved := spec.Saved
	if k.nested {
		saved = k.retained.saved(k.path+"/"+c.id, saved)
	}
	if saved != nil {
		k.restore(c, saved)
	}
	k.restoreRetained(c)
}

// redefine gives a listed child a new specification.
func (k *core) redefine(c *child, spec ChildSpec) {
	k.adjustCounts(c, -1)
	if c.policy.typ == SupervisorType {
		k.tally.supervisors--
	}
	old := c.policy.limit
	k.define(c, spec)
	if c.policy.limit != old && c.more != nil {
		c.more.win.clear()
	}
	if c.policy.typ == SupervisorType {
		k.tally.supervisors++
	}
	k.adjustCounts(c, +1)
}

// moveLast moves a child to the end of the order.
func (k *core) moveLast(c *child) {
	if c != k.tail {
		if c.prev == nil {
			k.head = c.next
		} else {
			c.prev.next = c.next
		}
		c.next.prev = c.prev
		c.prev, c.next = k.tail, nil
		k.tail.next = c
		k.tail = c
	}
	k.lastSeq++
	c.seq = k.lastSeq
}

// counts is Count.
func (k *core) counts() Counts {
	n := Counts{Specs: k.tally.specs, Active: k.tally.alive, Supervisors: k.tally.supervisors}
	n.Workers = n.Specs - n.Supervisors
	if k.strategy == SimpleOneForOne {
		n.Specs = 1
	}
	return n
}
