package supervisor

import "time"

// This file ends incarnations: it asks, kills and abandons them.

// brutalGrace is the time a goroutine has to notice that its context is done
// before a BrutalKill abandons it.
const brutalGrace = 10 * time.Millisecond

// ask asks an incarnation to stop and bounds the wait for its end. For a Start
// child that is asked while starting, ask is called again once it has a process.
func (i *incarnation) ask() {
	s := i.s
	grace := i.c.policy.shutdown
	if p, ok := i.process().(StopTimeouter); ok && grace != BrutalKill {
		if d := p.StopTimeout(); d != 0 {
			grace = d
		}
	}
	again := i.more != nil && i.more.since != 0
	if !again {
		i.stopTimer()
		if grace != Infinity || s.core.brutal {
			i.ext().since = max(s.core.now, 1)
		}
	}
	switch {
	case again && i.more.killed:
		i.more.killed = false
		i.kill()
		return
	case s.core.brutal || grace == BrutalKill:
		i.kill()
		return
	case !again && grace != Infinity:
		i.more.timer = time.AfterFunc(grace, func() { s.box.put(&stopTimeout{i}) })
	}
	if i.more == nil {
		return
	}
	switch p := i.more.proc.(type) {
	case nil:
	case *Supervisor:
		p.Stop()
	default:
		go i.guard(p.Stop)
	}
}

// process returns the process of a Start child that has started; nil if there is none.
func (i *incarnation) process() stopper {
	if i.more == nil {
		return nil
	}
	return i.more.proc
}

// kill kills an incarnation.
func (i *incarnation) kill() {
	s := i.s
	if i.c.inc != i || i.c.state != Stopping {
		return
	}
	m := i.ext()
	if m.killed {
		return
	}
	m.killed = true
	wait := brutalGrace
	switch p := m.proc.(type) {
	case nil:
	case *Supervisor:
		p.Kill() // always ends: it kills or abandons its own children
		return
	default:
		go i.guard(p.Kill)
		wait = KillGrace
	}
	i.stopTimer()
	m.timer = time.AfterFunc(wait, func() { s.box.put(&stopTimeout{i}) })
}

// expired handles an incarnation that did not end within its shutdown time, or after it was killed.
func (i *incarnation) expired() {
	if i.c.inc != i || i.c.state != Stopping {
		return
	}
	if m := i.more; m.proc != nil && !m.killed {
		i.kill()
		return
	}
	i.abandon()
}

// abandon cuts off an incarnation: everything that it does from now on is ignored.
func (i *incarnation) abandon() {
	s := i.s
	c := i.c
	waited := s.core.now - i.more.since
	i.stopTimer()
	i.cut = true
	c.inc = nil
	s.abandoned++
	if s.core.hooked {
		s.core.events = append(s.core.events, ChildAbandoned{s.core.header(c), waited})
	}
	err := &AbandonedError{Path: i.String(), Waited: waited}
	s.core.abandoned(c, Exit{Kind: Abandoned, Err: err}, err)
}
