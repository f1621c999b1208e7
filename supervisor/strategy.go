package supervisor

import "time"

// This file has the operations on more than one child: the initial start, the
// restart of a group, and the shutdown. At most one is in progress.
//
// A group is restarted in three phases. Its members are stopped one after the
// other, last one first; the trigger's delay (or hold) is waited for; they are
// started one after the other, each when the one before it is ready. Another
// failure in the group, or before it, restarts the operation with the
// larger group; so does a start that fails, which is how OTP retries.

type operation uint8

const (
	opNone operation = iota
	opInit           // the initial start; only the phase starting
	opGroup
	opDown // only the phase stopping
)

type phase uint8

const (
	stopping phase = iota
	waiting
	starting
)

// alone reports whether the strategy restarts a failed child without its siblings.
func (k *core) alone() bool { return k.strategy == OneForOne || k.strategy == SimpleOneForOne }

// boot lists the children of spec and starts them, in order.
func (k *core) boot(spec Spec) {
	was, again := k.retained.of(k.path) // of a nested supervisor that is restarted
	k.byID = make(map[string]*child, len(spec.Children))
	if k.strategy == SimpleOneForOne {
		k.template = k.newChild(spec.Children[0])
	} else {
		slots := make([]child, len(spec.Children))
		for i, cs := range spec.Children {
			c := &slots[i]
			c.id = cs.ID
			k.define(c, cs)
			k.list(c, cs, Waiting)
		}
	}
	if saved := spec.Saved; saved != nil && (!again || was.deleted) {
		k.restoreWindow(&k.win, k.limit, saved.Counted, 0)
		k.paused, k.probing = saved.Paused, saved.Probing
	}
	k.op, k.phase = opInit, starting
	k.walkStart(k.head)
}

// begin starts an incarnation of c.
func (k *core) begin(c *child, by origin) {
	c.gen++
	c.origin, c.added = by, false
	if !c.adopts() {
		c.began, c.counted = k.now, false
		if c.more != nil {
			c.more.lived = 0
		}
		if l, w := k.governs(c); l.Count == CountStarts && !(k.excused(c) && w.count(k.now, l) > 0) {
			w.add(k.now, l)
			c.counted = true
		}
	}
	if by == originEnsure {
		c.reason = NoReason
	}
	if k.probing && k.probe == nil {
		k.probe = c
	}
	k.act(doStart, c)
	if c.instant() {
		k.set(c, Running, c.reason)
		k.running(c, 0)
		return
	}
	k.set(c, Starting, c.reason)
}

// excused reports whether a start of c has another cause than its own failure: the
// failure of another member of its group, a restart of its supervisor, or a call.
// Such a start counts only in an empty window, as the very first start does.
func (k *core) excused(c *child) bool {
	switch c.origin {
	case originGroup:
		return k.op == opGroup && c != k.trigger || k.op == opInit && c.gen > 1
	case originEnsure:
		return c.reason == ReasonSuspended // it is to run again
	case originManual, originReplace:
		return true
	}
	return false
}

// started handles the readiness of c.
func (k *core) started(c *child) {
	if c.state != Starting {
		return
	}
	next, took := c.next, time.Duration(0)
	if !c.adopts() {
		c.began, took = k.now, k.now-c.began
	}
	k.set(c, Running, c.reason)
	k.running(c, took)
	k.startNext(c, next)
}

// running reports that c runs, after a start that took that long.
func (k *core) running(c *child, took time.Duration) {
	if k.hooked {
		restart := c.origin == originRestart || c.origin == originReplace || c.origin == originCounted ||
			(c.origin == originGroup && k.op != opInit)
		k.events = append(k.events, ChildStarted{k.header(c), restart, c.adopts(), took})
	}
	if c.adopts() {
		c.more.adopt = false
	}
	if c.origin != originRestart && (c.origin != originGroup || k.op != opInit) {
		k.tellStart(c, nil)
	}
	if c == k.probe {
		if after := c.policy.backoff.stableAfter(); after > 0 {
			k.timer(c, after)
		}
	}
}

// startNext continues the start phase if it waits for c.
func (k *core) startNext(c, next *child) {
	if k.cursor == c && k.phase == starting && (k.op == opInit || k.op == opGroup) {
		k.walkStart(next)
	}
}

// walkStart starts the waiting children from c on, until one has to be waited for.
//
// After each chunk of starts it returns, and is called again with k.rest once they
// have been performed: otherwise the actions and events of very many children
// would pile up.
func (k *core) walkStart(c *child) {
	k.cursor, k.rest = nil, nil
	for n := 0; c != nil; c = c.next {
		if n++; n > chunk {
			k.rest = c
			return
		}
		switch {
		case c.state == Waiting && c.policy.manual && c != k.trigger:
			k.deferStart(c)
		case c.state == Waiting && k.alone() && (k.paused || k.probing && k.probe != nil):
			k.set(c, Paused, ReasonLimitPause)
		case c.state == Waiting:
			by := originGroup
			if c.added {
				by = originAdd // came while the group was restarted
			}
			k.begin(c, by)
			if c.state == Starting {
				k.cursor = c
				return
			}
		case (c.state.held() || c.state == Restarting) && !k.alone() && !c.policy.manual:
			// The children after c depend on it: they wait for its release.
			k.op, k.phase, k.from, k.trigger, k.due = opGroup, waiting, c, c, false
			k.isUp()
			return
		}
	}
	k.opDone()
}

// deferStart leaves the start of c to EnsureChild, also if c is the failed child of its group.
func (k *core) deferStart(c *child) {
	k.set(c, Waiting, ReasonDeferred)
	if k.op == opGroup {
		k.trigger = nil
		k.tellStart(c, ErrRestarting) // ends an EnsureChild that the restart has overtaken
	}
}

const chunk = 256

// opDone ends the start or restart of children.
func (k *core) opDone() {
	k.op, k.from, k.trigger, k.cursor = opNone, nil, nil, nil
	k.isUp()
	if k.ending {
		k.ending = false
		k.shutdown(Exit{Kind: ShutDown}, ReasonSignificant)
		return
	}
	for k.op == opNone && len(k.later) > 0 { // one may begin another operation
		f := k.later[0]
		k.later = k.later[1:]
		f()
	}
}

// isUp notes that the initial start is complete.
func (k *core) isUp() {
	if k.up {
		return
	}
	k.up = true
	k.act(tellUp, nil)
	if k.hooked {
		k.events = append(k.events, SupervisorStarted{k.header(nil)})
	}
}

// regroup restarts the group of the trigger, which does not run. If now is set, the
// group starts without a delay once it has stopped.
func (k *core) regroup(trigger *child, now bool) {
	from := trigger
	if k.strategy == OneForAll {
		from = k.head
	} else if k.op == opGroup && k.phase != starting && k.from.seq < from.seq {
		from = k.from
	} else if k.phase == starting && k.cursor != nil && k.cursor.seq < from.seq {
		from = k.cursor // those between have not been started yet
	}
	for c := k.tail; c != nil && c.seq >= from.seq; c = c.prev {
		switch {
		case c == trigger && !now: // it keeps its timer or hold
		case c.state == Restarting, c.state == Stopped:
			k.cancel(c)
			k.set(c, Waiting, ReasonSibling)
		case c.state == Waiting && c.policy.manual: // EnsureChild has to wait again
			k.set(c, Waiting, ReasonSibling)
		case c.state == Stopping && (c.plan == planFail || c.plan.renews()):
			c.plan = planWait
		}
	}
	k.op, k.phase, k.from, k.trigger, k.due, k.rest = opGroup, stopping, from, trigger, now, nil
	k.walkStop(k.tail)
}

// startGroup begins the last phase.
func (k *core) startGroup() {
	k.phase = starting
	k.walkStart(k.first())
}

// first returns the first member of the group that is still listed.
func (k *core) first() *child {
	if k.strategy == OneForAll {
		return k.head
	}
	return k.from
}

// walkStop stops the group's living members from c backwards, one at a time.
func (k *core) walkStop(c *child) {
	k.cursor = nil
	for ; c != nil && c.seq >= k.from.seq; c = c.prev {
		if !c.state.alive() {
			continue
		}
		k.cursor = c
		if c.state != Stopping {
			k.stop(c, planWait, ReasonSibling)
		}
		return
	}
	switch {
	case k.trigger == nil: // terminated by a call meanwhile
		k.dissolve()
	case k.due:
		k.startGroup()
	default:
		k.phase = waiting
	}
}

// dissolve ends the restart of a group whose trigger is not to be restarted:
// the members that wait for it stay down.
func (k *core) dissolve() {
	var added []*child
	for c := k.first(); c != nil; c = c.next {
		switch {
		case c.state != Waiting:
		case c.added:
			added = append(added, c)
		default:
			k.set(c, Stopped, ReasonTerminated)
			k.tellStart(c, ErrTerminated)
		}
	}
	k.opDone()
	for _, c := range added {
		if c.state == Waiting && k.op == opNone {
			k.begin(c, originAdd)
		}
	}
}

// stop asks c to stop. The plan is its next state.
func (k *core) stop(c *child, p plan, why Reason) {
	k.cancel(c)
	c.plan = p
	k.set(c, Stopping, why)
	k.act(doStop, c)
	if k.hooked {
		k.events = append(k.events, ChildStopping{k.header(c), why})
	}
}

// stopped handles the end of a stopping child, or its abandonment.
func (k *core) stopped(c *child, exit Exit) {
	c.rest().exit = exit
	if c.policy.typ == SupervisorType {
		k.retained.suspend(k.path+"/"+c.id, false)
	}
	if k.hooked {
		k.events = append(k.events, ChildStopped{k.header(c), exit, c.reason, k.now - c.began})
	}
	prev, next := c.prev, c.next
	switch {
	case c.plan == planFail && k.op != opDown:
		k.set(c, Starting, c.reason)
		k.startFailed(c, Exit{Kind: Failure, Err: ErrStartTimeout})
		return
	case c.plan == planWait && k.op != opDown:
		k.putAside(c)
	case c.plan.renews() && k.op != opDown:
		k.renewed(c)
		k.startNext(c, next)
		return
	case c.plan == planSuspend:
		k.set(c, Suspended, c.reason)
	case c.policy.restart == Temporary || k.strategy == SimpleOneForOne:
		k.forget(c)
	default:
		k.set(c, Stopped, c.reason)
	}
	if c.state != Waiting {
		k.act(tellStopped, c)
		k.tellStart(c, ErrTerminated)
	}
	switch {
	case k.op == opDown:
		k.proceedDown()
	case k.op == opGroup && k.phase == stopping && c == k.cursor:
		k.walkStop(prev)
	case k.op == opGroup && k.phase == starting && c == k.cursor && c == k.trigger:
		k.dissolve() // terminated by a call: its group stays down
	default:
		k.startNext(c, next)
	}
}

// putAside makes a stopped member of the group wait for the restart. A temporary
// one is forgotten.
func (k *core) putAside(c *child) {
	if c.policy.restart == Temporary {
		k.forget(c)
		return
	}
	k.set(c, Waiting, ReasonSibling)
}

// shutdown stops all children and ends the supervisor with final.
func (k *core) shutdown(final Exit, why Reason) {
	if k.op == opDown {
		return
	}
	k.retainAll()
	k.op, k.phase, k.final, k.rest = opDown, stopping, final, nil
	if k.hooked {
		k.events = append(k.events, SupervisorStopping{k.header(nil), why, final.Err})
	}
	later := k.later
	k.later = nil
	for c := k.head; c != nil; c = c.next {
		switch {
		case c.state.held(), c.state == Restarting, c.state == Waiting:
			k.cancel(c)
			k.set(c, Stopped, ReasonShutdown)
			k.tellStart(c, ErrStopping)
		case c.state == Running && c == k.probe:
			k.cancel(c)
		}
	}
	for _, f := range later {
		f()
	}
	switch {
	case k.strategy == SimpleOneForOne: // all at once (OTP)
		for c := k.head; c != nil; c = c.next {
			if c.state.alive() && c.state != Stopping {
				k.stop(c, planDown, ReasonShutdown)
			}
		}
	case k.together:
		k.stopTogether()
	}
	k.cursor = k.tail
	k.proceedDown()
}

// stopTogether makes a shutdown ask all children at once.
func (k *core) stopTogether() {
	k.together = true
	if k.op != opDown {
		return
	}
	for c := k.tail; c != nil; c = c.prev {
		if c.state.alive() && c.state != Stopping {
			k.stop(c, planDown, ReasonShutdown)
		}
	}
}

// proceedDown stops the next child of a shutdown, or ends it.
func (k *core) proceedDown() {
	for k.cursor != nil && !k.cursor.state.alive() {
		k.cursor = k.cursor.prev
	}
	switch c := k.cursor; {
	case k.tally.alive == 0:
		k.act(tellEnd, nil)
	case c == nil: // the others are stopping already
	case c.state != Stopping:
		k.stop(c, planDown, ReasonShutdown)
	}
}

// kill turns the shutdown into a brutal one, and begins it if necessary.
func (k *core) kill() {
	k.shutdown(Exit{Kind: Killed, Err: ErrKilled}, ReasonShutdown)
	k.brutal = true
	for c := k.head; c != nil; c = c.next {
		switch {
		case c.state == Stopping:
			k.act(doKill, c)
		case c.state.alive():
			k.stop(c, planDown, ReasonShutdown)
		}
	}
}

// abandoned handles an incarnation of c that did not end in time and was cut off.
func (k *core) abandoned(c *child, exit Exit, err error) {
	if c.policy.onAbandon == Fail && k.op != opDown {
		c.rest().exit = exit
		c.plan = planDown
		k.set(c, Stopped, ReasonAbandoned)
		k.act(tellStopped, c)
		k.tellStart(c, err)
		k.shutdown(Exit{Kind: Failure, Err: err}, ReasonAbandoned)
		return
	}
	k.stopped(c, exit)
}

// settle runs after each step: it makes the next probe, and ends or reports a
// supervisor without live children.
func (k *core) settle() {
	for k.probing && k.probe == nil && k.tally.paused > 0 && k.op != opDown && k.rest == nil {
		k.releasePaused() // the probe has ended without success or failure
	}
	if !k.up || k.op == opDown || k.rest != nil {
		return
	}
	live := k.tally.live
	if k.op == opGroup && k.phase == waiting && k.trigger.state == GivenUp {
		live -= k.tally.waiting
	}
	idle := live == 0 && k.holds == 0
	if idle && k.auto == WhenDone {
		k.shutdown(Exit{Kind: Normal}, ReasonDone)
		return
	}
	if idle != k.idle {
		k.idle = idle
		k.act(tellIdle, nil)
	}
}
