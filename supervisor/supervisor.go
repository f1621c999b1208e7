package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Supervisor is a running supervisor. All methods may be called from any
// goroutine; none of them waits for a child that is slow to start, but for
// the call that started it. A *Supervisor is also a Process.
type Supervisor struct {
	core      core // the loop's
	box       mailbox
	base      context.Context // for the values that children see
	depth     int
	parent    *incarnation // of a nested one, in its parent
	spec      Spec
	hook      *hook // nil: nobody wants events
	ownHook   bool
	waiters   map[*child][]*waiter
	spare     sync.Pool // of waiters
	abandoned int
	unwatch   func() bool // of the root: stops waiting for the end of its context
	ended     bool
	up        chan struct{} // closed when the initial start is complete
	done      chan struct{} // closed when it has ended; exit is set then
	exit      Exit
}

// Start starts the tree and returns when all children have been started, in
// order. If one fails to, those before it are stopped in reverse order and the
// error is a *StartError (unless Spec.StartFailure says otherwise); a faulty
// spec is a *SpecError, and then nothing was started.
//
// When ctx ends the supervisor stops as by Stop. Children see the values of
// ctx, but not its end: they are stopped one after the other.
func Start(ctx context.Context, spec Spec) (*Supervisor, error) {
	s, err := Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	// The end of ctx ends the start too, and that is worth waiting for.
	if err := s.Started(context.WithoutCancel(ctx)); err != nil {
		if s.ownHook {
			<-s.hook.drained // its events say more than the error
		}
		if ctx.Err() != nil && errors.Is(err, ErrStopping) {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return s, nil
}

// Launch is Start without the wait: it returns as soon as the spec is known
// to be valid. Started tells how the start went.
func Launch(ctx context.Context, spec Spec) (*Supervisor, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	s := newSupervisor(ctx, spec, spec.path(), 1)
	if spec.OnEvent != nil {
		s.hook, s.ownHook = newHook(spec.OnEvent), true
	}
	s.core.hooked = s.hook != nil
	s.unwatch = context.AfterFunc(ctx, s.Stop)
	go s.loop()
	return s, nil
}

// Started waits until all children have been started. The error says why they
// have not, once everything has been stopped again: what Start returns,
// ErrStopping if it was stopped, or the cause of the end of ctx.
func (s *Supervisor) Started(ctx context.Context) error {
	select {
	case <-s.up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
	}
	select {
	case <-s.up: // and has ended already
		return nil
	default:
	}
	if s.exit.Err != nil {
		return s.exit.Err
	}
	return ErrStopping
}

// newSupervisor makes a supervisor that does nothing yet.
func newSupervisor(base context.Context, spec Spec, path string, depth int) *Supervisor {
	s := &Supervisor{
		base: base, depth: depth, spec: spec,
		box:     mailbox{wake: make(chan struct{}, 1)},
		waiters: make(map[*child][]*waiter),
		up:      make(chan struct{}), done: make(chan struct{}),
	}
	s.core = core{
		path: path, epoch: time.Now(),
		strategy: spec.Strategy, auto: spec.AutoShutdown, onStart: spec.StartFailure, limit: spec.limit(),
		rand: func(d time.Duration) time.Duration { return rand.N(d + 1) },
	}
	return s
}

// Path is the path of this supervisor in its tree.
func (s *Supervisor) Path() string { return s.core.path }

// Done is closed when the supervisor and all its children have ended.
func (s *Supervisor) Done() <-chan struct{} { return s.done }

// Exit says how it ended, after Done: ShutDown after Stop or an automatic
// shutdown, Normal with WhenDone, Failure with a *LimitError or
// *AbandonedError, Killed after Kill.
func (s *Supervisor) Exit() Exit { return s.exit }

// Wait waits for the end, and for the hook to have seen all events. The
// error is nil after a clean exit.
func (s *Supervisor) Wait() error {
	<-s.done
	if s.ownHook {
		<-s.hook.drained
	}
	if s.exit.Clean() {
		return nil
	}
	return s.exit.Err
}

// Stop asks the supervisor to stop its children, in reverse order, each within
// its shutdown time, and to end. It returns at once.
func (s *Supervisor) Stop() { s.box.put(stopMessage{}) }

// Kill ends the supervisor and all its children without asking them, also
// when a Stop is under way. Goroutines that do not end are abandoned. It returns at once.
func (s *Supervisor) Kill() { s.box.put(killMessage{}) }

// The messages of the loop, besides *incarnation: the end of one.
type (
	startResult struct { // a Start function has returned
		i    *incarnation
		p    Process
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
	call        struct{ f func() }
	stopMessage struct{}
	killMessage struct{}
)

func (*startResult) message()  {}
func (*readyMessage) message() {}
func (*startTimeout) message() {}
func (*stopTimeout) message()  {}
func (*timeUp) message()       {}
func (*faultMessage) message() {}
func (*idleMessage) message()  {}
func (*call) message()         {}
func (stopMessage) message()   {}
func (killMessage) message()   {}

// loop is the supervisor's goroutine: it receives, lets the core decide, and
// does what the core says.
func (s *Supervisor) loop() {
	s.boot()
	s.perform()
	var batch, rest []message
	for !s.ended {
		batch = s.box.take(batch)
		for rest = batch; len(rest) > 0 && !s.ended; rest = rest[1:] {
			s.core.now = time.Since(s.core.epoch)
			s.handle(rest[0])
			s.perform()
		}
	}
	s.end(rest)
}

// boot lists the children and starts them.
func (s *Supervisor) boot() {
	k := &s.core
	k.byID = make(map[string]*child, len(s.spec.Children))
	if k.strategy == SimpleOneForOne {
		k.template = k.newChild(s.spec.Children[0])
	} else {
		slots := make([]child, len(s.spec.Children))
		for i, cs := range s.spec.Children {
			c := &slots[i]
			c.id, c.state = cs.ID, Waiting
			k.define(c, cs)
			k.link(c)
			if cs.Saved != nil {
				k.restore(c, cs.Saved)
			}
		}
	}
	if saved := s.spec.Saved; saved != nil {
		k.restoreWindow(&k.win, k.limit, saved.Counted)
		k.paused = saved.Paused
	}
	s.spec = Spec{} // what is needed of it is in the core
	k.boot()
}

// end leaves nothing behind. The messages that came too late are only of
// interest where they bring a process.
func (s *Supervisor) end(late []message) {
	s.exit = s.core.final
	for _, m := range append(late, s.box.close()...) {
		if r, ok := m.(*startResult); ok && r.p != nil {
			go r.i.guard(r.p.Kill)
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
		s.ends(m, m.exit())
	case *startResult:
		switch {
		case m.p == nil:
			s.ends(m.i, m.exit)
		case m.i.cut:
			go m.i.guard(m.p.Kill)
		default:
			m.i.ext().proc = m.p
			s.ready(m.i)
			if m.i.asked { // while it was starting
				s.ask(m.i)
			}
		}
	case *readyMessage:
		s.ready(m.i)
	case *startTimeout:
		if c := m.i.c; c.inc == m.i && c.state == Starting {
			k.stop(c, planFail, ReasonStartFailed)
		}
	case *stopTimeout:
		s.expired(m.i)
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
		s.first(m)
	case *call:
		m.f()
	case stopMessage:
		k.shutdown(Exit{Kind: ShutDown}, ReasonShutdown)
	case killMessage:
		k.kill()
	}
}

// ready: the incarnation says that it has started.
func (s *Supervisor) ready(i *incarnation) {
	if i.c.inc != i || i.c.state != Starting {
		return
	}
	i.stopTimer()
	s.core.started(i.c)
	if i.more != nil && i.more.idle && i.c.state == Running {
		s.core.setIdle(i.c, true)
	}
}

// ends: the incarnation has ended, or its start has failed.
func (s *Supervisor) ends(i *incarnation, exit Exit) {
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

// perform does what the core says until it has nothing more to say.
func (s *Supervisor) perform() {
	k := &s.core
	for {
		k.settle()
		s.tell() // first: what follows from it is told later, also by others
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

// tell hands the events over.
func (s *Supervisor) tell() {
	if k := &s.core; len(k.events) > 0 {
		s.hook.put(k.events)
		clear(k.events)
		k.events = k.events[:0]
	}
}

// act does one thing.
func (s *Supervisor) act(a action) {
	k := &s.core
	switch a.do {
	case doStart:
		s.start(a.c)
	case doStop:
		a.c.inc.asked = true
		a.c.inc.cancel()
		s.ask(a.c.inc)
	case doKill:
		if a.c.inc != nil {
			s.kill(a.c.inc)
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
		s.reply(a.c, false, a.err)
	case tellStopped:
		s.reply(a.c, true, nil)
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

// start begins an incarnation.
func (s *Supervisor) start(c *child) {
	i := &incarnation{s: s, c: c, n: c.gen}
	c.inc = i
	if c.more != nil && c.more.arg != nil {
		i.withArg = true
		i.ext().arg = c.more.arg
	}
	switch work := c.work.(type) {
	case run:
		go i.live(work)
	case start:
		go i.watch(work)
	case *Spec:
		sub := newSupervisor(s.base, *work, s.core.path+"/"+c.id, s.depth+1)
		sub.parent, sub.hook = i, s.hook
		if work.OnEvent != nil {
			sub.hook, sub.ownHook = newHook(work.OnEvent), true
		}
		sub.core.hooked = sub.hook != nil
		i.ext().proc = sub
		go i.nest(sub)
	}
	if d := c.policy.startTimeout; d > 0 {
		i.ext().timer = time.AfterFunc(d, func() { s.box.put(&startTimeout{i}) })
	}
}

// brutalGrace is the time a goroutine has to notice that its context is done
// before a BrutalKill abandons it.
const brutalGrace = 10 * time.Millisecond

// ask passes a stop on to an incarnation and sees to it that it is bounded.
// For a Start child that is asked while starting it comes again once there is
// a process.
func (s *Supervisor) ask(i *incarnation) {
	grace := i.c.policy.shutdown
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
		s.kill(i)
		return
	case s.core.brutal || grace == BrutalKill:
		s.kill(i)
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

// kill ends an incarnation that must not be asked (again).
func (s *Supervisor) kill(i *incarnation) {
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
		p.Kill() // ends for certain: it kills or abandons its own children
		return
	default:
		go i.guard(p.Kill)
		wait = KillGrace
	}
	i.stopTimer()
	m.timer = time.AfterFunc(wait, func() { s.box.put(&stopTimeout{i}) })
}

// expired: an incarnation did not end within its shutdown time, or after it was killed.
func (s *Supervisor) expired(i *incarnation) {
	if i.c.inc != i || i.c.state != Stopping {
		return
	}
	if m := i.more; m.proc != nil && !m.killed {
		s.kill(i)
		return
	}
	s.abandon(i)
}

// abandon cuts an incarnation off: whatever it still does concerns nobody.
func (s *Supervisor) abandon(i *incarnation) {
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
