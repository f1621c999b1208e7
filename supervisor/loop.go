package supervisor

import "time"

// The messages of the loop. Another one is *incarnation, which reports its own end.
type (
	startResult struct { // a Start function has returned
		i    *incarnation
		p    stopper
		exit Exit // Normal if there is a process
	}
	readyMessage struct{ i *incarnation }
	startTimeout struct{ i *incarnation }
	stopTimeout  struct{ i *incarnation }
	timeUp       struct {
		c     *child
		token uint64
	}
	faultMessage struct { // Stop or Kill has panicked
		i   *incarnation
		err error
	}
	idleMessage struct {
		i    *incarnation
		idle bool
	}
	updateMessage struct {
		u      *updating
		spec   Spec
		called bool // Update was called for this supervisor
	}
	call        struct{ f func() }
	stopMessage struct{}
	killMessage struct{}
)

func (*startResult) message()   {}
func (*readyMessage) message()  {}
func (*startTimeout) message()  {}
func (*stopTimeout) message()   {}
func (*timeUp) message()        {}
func (*faultMessage) message()  {}
func (*idleMessage) message()   {}
func (*call) message()          {}
func (*updateMessage) message() {}
func (stopMessage) message()    {}
func (killMessage) message()    {}

// loop is the supervisor's goroutine: it receives messages, passes them to the core,
// and performs the core's actions.
func (s *Supervisor) loop() {
	s.core.boot(s.spec)
	s.spec = Spec{} // what is needed of it is in the core
	s.perform()
	var batch, rest []message
	for !s.ended {
		batch = s.box.take(batch)
		for rest = batch; len(rest) > 0 && !s.ended; rest = rest[1:] {
			now := time.Now()
			s.core.at(now.Sub(s.origin), now)
			s.handle(rest[0])
			s.perform()
		}
	}
	s.end(rest)
}

// end releases everything that the supervisor holds. Late messages may carry a
// process to kill, or a caller that waits.
func (s *Supervisor) end(late []message) {
	s.exit = s.core.final
	for _, m := range append(late, s.box.close()...) {
		switch m := m.(type) {
		case *startResult:
			if m.p != nil {
				go m.i.guard(m.p.Kill)
			}
		case *updateMessage:
			m.end(ErrNoSupervisor)
		}
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	if s.ownHook {
		s.hook.close()
	}
	close(s.done)
}

func (s *Supervisor) handle(m message) {
	k := &s.core
	switch m := m.(type) {
	case *incarnation:
		m.ends(m.exit())
	case *startResult:
		switch {
		case m.p == nil:
			m.i.ends(m.exit)
		case m.i.cut:
			go m.i.guard(m.p.Kill)
		default:
			m.i.ext().proc = m.p
			m.i.ready()
			if m.i.asked { // while it was starting
				m.i.ask()
			}
		}
	case *readyMessage:
		m.i.ready()
	case *startTimeout:
		if c := m.i.c; c.inc == m.i && c.state == Starting {
			k.stop(c, planFail, ReasonStartFailed)
		}
	case *stopTimeout:
		m.i.expired()
	case *timeUp:
		if more := m.c.more; more != nil && more.token == m.token && more.nextAt != 0 {
			k.timeUp(m.c)
		}
	case *faultMessage:
		if k.hooked {
			h := k.header(m.i.c)
			h.Incarnation = m.i.n
			k.events = append(k.events, ChildMisbehaved{h, m.err})
		}
	case *idleMessage:
		if m.i.c.inc == m.i {
			m.i.more.idle = m.idle
			if m.i.c.state == Running {
				k.setIdle(m.i.c, m.idle)
			}
		}
	case *waiter:
		m.begin(s)
	case *call:
		m.f()
	case *updateMessage:
		m.take(s)
	case stopMessage:
		k.shutdown(Exit{Kind: ShutDown}, ReasonShutdown)
	case killMessage:
		k.kill()
	}
}

// ready handles the report of the incarnation that it has started.
func (i *incarnation) ready() {
	if i.c.inc != i || i.c.state != Starting {
		return
	}
	i.stopTimer()
	i.s.core.started(i.c)
	if i.more != nil && i.more.idle && i.c.state == Running {
		i.s.core.setIdle(i.c, true)
	}
}

// ends handles the end of the incarnation, or its failed start.
func (i *incarnation) ends(exit Exit) {
	s := i.s
	c := i.c
	if i.cut {
		s.abandoned--
		if s.core.hooked {
			h := s.core.header(c)
			h.Incarnation = i.n
			s.core.events = append(s.core.events, ChildReturned{h, exit})
		}
		return
	}
	i.stopTimer()
	c.inc = nil
	s.core.exited(c, exit)
}

// perform performs the actions of the core until there are none left.
func (s *Supervisor) perform() {
	k := &s.core
	for {
		k.settle()
		s.tell() // before the actions, whose own events must come later
		for n := 0; n < len(k.out); n++ {
			s.act(k.out[n])
		}
		clear(k.out)
		if k.out = k.out[:0]; cap(k.out) > 1<<12 {
			k.out = nil
		}
		if k.rest == nil {
			s.tell()
			return
		}
		k.walkStart(k.rest)
	}
}

// tell passes the events of the core to the hook.
func (s *Supervisor) tell() {
	if k := &s.core; len(k.events) > 0 {
		k.fillSnapshots()
		s.hook.put(k.events)
		clear(k.events)
		k.events = k.events[:0]
	}
}

// act performs one action.
func (s *Supervisor) act(a action) {
	k := &s.core
	switch a.do {
	case doStart:
		a.c.inc = &incarnation{s: s, c: a.c, n: a.c.gen}
		a.c.inc.launch()
	case doStop:
		a.c.inc.asked = true
		a.c.inc.cancel()
		a.c.inc.ask()
	case doKill:
		if a.c.inc != nil {
			a.c.inc.kill()
		}
	case doTimer:
		m := &timeUp{a.c, a.c.more.token}
		a.c.more.timer = time.AfterFunc(a.d, func() { s.box.put(m) })
	case doCancel:
		if t := a.c.more.timer; t != nil {
			t.Stop()
			a.c.more.timer = nil
		}
	case tellStarted:
		s.waiters.reply(k, a.c, false, a.err)
	case tellStopped:
		s.waiters.reply(k, a.c, true, nil)
	case tellUp:
		close(s.up)
	case tellIdle:
		if p := s.parent; p != nil {
			p.s.box.put(&idleMessage{p, k.idle})
		}
	case tellEnd:
		if s.ended {
			return
		}
		s.ended = true
		if k.hooked {
			k.events = append(k.events, SupervisorEnded{k.header(nil), k.final})
		}
	}
}
