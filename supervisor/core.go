package supervisor

import (
	"context"
	"time"
)

// core is the state of a supervisor's decisions. It is pure: it knows no
// goroutine, no clock and no context. A step method receives what happened and
// the time (now). It changes the state, appends actions to out and events to
// events. The runner performs the actions and passes the events on.
//
// Each step is O(1) in the number of children, except that a group strategy
// walks the children that it restarts, and a shutdown those it stops.
type core struct {
	path     string
	epoch    time.Time // wall clock time at which now was 0; see at
	strategy Strategy
	auto     AutoShutdown
	together bool // Spec.StopTogether
	onStart  StartFailure
	limit    Limit
	win      window // counts for limit, where its scope is the supervisor

	head, tail *child // in start order
	byID       map[string]*child
	over       map[string]bool // temporary children of the Spec that have ended
	template   *child          // of a SimpleOneForOne's instances
	lastSeq    uint64
	policy     *policy // the last one made, shared by children that have the same
	tally      tally

	// The operation in progress, see strategy.go.
	op      operation
	phase   phase
	from    *child // first member of the group
	trigger *child // whose failure it was; its delay or hold is the group's
	cursor  *child // being stopped or started
	rest    *child // where walkStart continues
	due     bool   // the trigger's delay is over
	up      bool   // the initial start is complete
	ending  bool   // shut down once up: a significant child ended meanwhile
	brutal  bool   // kill instead of asking
	final   Exit
	later   []func() // calls that wait for the operation to end

	retained *retained // of the tree
	nested   bool      // not the root

	paused, probing bool
	probe           *child
	idle            bool // as reported last
	holds           int  // see Supervisor.Hold

	rand   func(time.Duration) time.Duration // draws from [0, d]
	now    time.Duration
	out    []action
	hooked bool // there is a hook for events
	events []Event

	pending []pendingSnapshot // of events
}

// tally counts children by state, so that no step has to walk all of them.
type tally struct {
	specs, alive, supervisors int
	live                      int // run, or will run without a call
	waiting, paused           int // of these, in state Waiting and Paused
	present                   int // significant, and not down for good
}

// child is a place in the order, with the state that outlives its incarnations.
// There may be very many: fields that only some need are in more.
type child struct {
	id         string
	work       any // run, start or *Spec
	policy     *policy
	prev, next *child
	seq        uint64 // orders children without walking
	inc        *incarnation
	more       *childMore
	gen        uint64        // number of the last incarnation
	began      time.Duration // of the last incarnation
	restarts   uint32
	attempt    uint32 // restarts since the last success
	state      State
	reason     Reason
	plan       plan
	origin     origin
	added      bool // by StartChild, while its group was restarted, and not started yet
	listed     bool // in the Spec of the supervisor, which starts it with that
	idle       bool // a nested supervisor without live children
	counted    bool // the start of this incarnation took a place in the window of its limit
}

// The kinds of work, see ChildSpec. As a func needs no allocation in an
// interface, work is smaller than a field for each.
type (
	run   = func(context.Context) error
	start = func(context.Context) (Process, error)
)

// childMore has the fields that a child needs after its first exit, timer or limit.
type childMore struct {
	exit   Exit // last
	arg    any  // of a SimpleOneForOne instance; set before the first incarnation
	win    window
	nextAt time.Duration // of the next try; 0 if none is scheduled
	timer  *time.Timer   // the runner's
	adopt  bool          // the next start adopts a running incarnation
	lived  time.Duration // run time of an adopted incarnation that had ended before; 0: it runs
	short  uint32        // early exits in a row
	token  uint64        // numbers timers, so that a late one is recognised
	cause  error         // of a restart that is counted, while the child is stopped for it: see RestartCounted
}

// policy is the part of a ChildSpec that children share.
type policy struct {
	restart      Restart
	shutdown     time.Duration
	significant  bool
	typ          ChildType
	waitReady    bool
	manual       bool
	startTimeout time.Duration
	backoff      Backoff
	limit        Limit
	onAbandon    Abandon
}

// plan is the next state of a Stopping child after its exit.
type plan uint8

const (
	planDown    plan = iota // Stopped, or forgotten if temporary
	planSuspend             // Suspended
	planWait                // Waiting, for its turn in the restart of its group
	planFail                // its start has failed: it was not ready in time
	planReplace             // started again
	planCounted             // started again, which counts for its limit
)

// origin is the cause of a start. It selects the reaction to a failed start.
type origin uint8

const (
	originGroup   origin = iota // the initial start or the restart of a group: cursor
	originRestart               // the restart of this child alone
	originAdd                   // StartChild
	originManual                // RestartChild
	originEnsure                // EnsureChild
	originReplace               // ReplaceChild
	originCounted               // ReplaceCounted, RestartCounted
)

// action is an effect that the runner performs.
type action struct {
	do  verb
	c   *child
	d   time.Duration
	err error
}

type verb uint8

const (
	doStart     verb = iota // begin incarnation c.gen
	doStop                  // ask the incarnation to stop, kill it after the shutdown time
	doKill                  // kill it now
	doTimer                 // call timeUp in d
	doCancel                // forget the timer
	tellStarted             // c's start is over; err is its result
	tellStopped             // c has ended after a stop request
	tellUp                  // the supervisor has started
	tellIdle                // the value of idle has changed
	tellEnd                 // no child runs: end with final
)

func (k *core) act(do verb, c *child) { k.out = append(k.out, action{do: do, c: c}) }

func (c *child) rest() *childMore {
	if c.more == nil {
		c.more = new(childMore)
	}
	return c.more
}

// renews reports whether the child is stopped only to be started again.
func (p plan) renews() bool { return p == planReplace || p == planCounted }

// keeps reports whether a failed start is handled as a failed restart: the child
// stays and is tried again.
func (o origin) keeps() bool { return o == originEnsure || o == originReplace || o == originCounted }

// alive reports whether the child has an incarnation.
func (s State) alive() bool { return s == Running || s == Starting || s == Stopping }

// held reports whether a limit holds the restart.
func (s State) held() bool { return s == Quarantined || s == GivenUp || s == Paused }

// present reports whether OTP would show a pid or restarting, instead of undefined.
func (s State) present() bool { return s != Stopped && s != Suspended && s != Waiting }

// live reports whether the child runs or will run again; a paused one will after Resume.
func (c *child) live() bool {
	switch c.state {
	case Stopped, Suspended, GivenUp:
		return false
	}
	return !c.idle
}

// instant reports whether the child is ready as soon as it is started.
func (c *child) instant() bool {
	_, ok := c.work.(run)
	return ok && !c.policy.waitReady
}

// adopts reports whether its next start, or the one in progress, adopts a running incarnation.
func (c *child) adopts() bool { return c.more != nil && c.more.adopt }

// set changes the state of a child and keeps the tally.
func (k *core) set(c *child, s State, r Reason) {
	k.adjustCounts(c, -1)
	c.state, c.reason = s, r
	if s != Running {
		c.idle = false
	}
	if c == k.probe && !s.alive() {
		k.probe = nil // settle makes another one the probe
	}
	k.adjustCounts(c, +1)
}

func (k *core) adjustCounts(c *child, by int) {
	if c.state.alive() {
		k.tally.alive += by
	}
	if c.live() {
		k.tally.live += by
	}
	if c.state == Waiting {
		k.tally.waiting += by
	}
	if c.state == Paused {
		k.tally.paused += by
	}
	if c.policy.significant && (c.state.present() || c.state == Waiting) {
		k.tally.present += by
	}
}

// setIdle notes whether a nested supervisor has no live children.
func (k *core) setIdle(c *child, idle bool) {
	k.adjustCounts(c, -1)
	c.idle = idle
	k.adjustCounts(c, +1)
}

// newChild makes a child of a valid spec.
func (k *core) newChild(spec ChildSpec) *child {
	c := &child{id: spec.ID}
	k.define(c, spec)
	return c
}

// define sets the specification of a child; a running incarnation keeps its own.
func (k *core) define(c *child, spec ChildSpec) {
	spec = spec.withDefaults()
	p := policy{
		restart: spec.Restart, shutdown: spec.Shutdown, significant: spec.Significant, typ: spec.Type,
		waitReady: spec.WaitReady, manual: spec.ManualStart, startTimeout: spec.StartTimeout, backoff: spec.Backoff,
		limit: spec.Limit, onAbandon: spec.OnAbandon,
	}
	if k.policy == nil || *k.policy != p {
		made := p // otherwise p would be allocated for each child
		k.policy = &made
	}
	c.policy = k.policy
	switch {
	case spec.Run != nil:
		c.work = spec.Run
	case spec.Start != nil:
		c.work = spec.Start
	default:
		c.work = spec.Supervisor
	}
}

// spec is the reverse of define.
func (c *child) spec() ChildSpec {
	p := c.policy
	spec := ChildSpec{
		ID: c.id, Restart: p.restart, Shutdown: p.shutdown, Significant: p.significant, Type: p.typ,
		WaitReady: p.waitReady, ManualStart: p.manual, StartTimeout: p.startTimeout, Backoff: p.backoff,
		Limit: p.limit, OnAbandon: p.onAbandon,
	}
	switch work := c.work.(type) {
	case run:
		spec.Run = work
	case start:
		spec.Start = work
	case *Spec:
		spec.Supervisor = work
	}
	return spec
}

// link appends a child to the order.
func (k *core) link(c *child) {
	k.lastSeq++
	c.seq, c.prev, c.next = k.lastSeq, k.tail, nil
	if k.tail == nil {
		k.head = c
	} else {
		k.tail.next = c
	}
	k.tail = c
	k.byID[c.id] = c
	k.tally.specs++
	if c.policy.typ == SupervisorType {
		k.tally.supervisors++
	}
	k.adjustCounts(c, +1)
}

// forget removes a child from the order. Its own links stay, so that a walk
// that stands on it can continue.
func (k *core) forget(c *child) {
	k.cancel(c)
	k.retain(c)
	if c.listed && c.policy.restart == Temporary {
		k.isOver(c.id)
	}
	k.set(c, Stopped, c.reason)
	k.adjustCounts(c, -1)
	if c.prev == nil {
		k.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		k.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	delete(k.byID, c.id)
	k.tally.specs--
	if c.policy.typ == SupervisorType {
		k.tally.supervisors--
	}
}

// timer schedules timeUp for c in d.
func (k *core) timer(c *child, d time.Duration) {
	m := c.rest()
	m.nextAt = max(1, k.now+d) // 0 means none, and time begins at 0
	m.token++
	k.out = append(k.out, action{do: doTimer, c: c, d: d})
}

func (k *core) cancel(c *child) {
	if m := c.more; m != nil && m.nextAt != 0 {
		m.nextAt = 0
		m.token++
		k.act(doCancel, c)
	}
}

// at sets the time. Decisions use elapsed, the monotonic time since the core was made.
// The wall clock is for people and for saved state. If it is set, all displayed times
// move, and no decision changes.
func (k *core) at(elapsed time.Duration, wall time.Time) {
	k.now, k.epoch = elapsed, wall.Add(-elapsed)
}

// header returns the header of an event about c, or about the supervisor itself if c is nil.
func (k *core) header(c *child) EventHeader {
	h := EventHeader{Time: k.epoch.Add(k.now), Supervisor: k.path, Type: SupervisorType, After: k.after(c)}
	if c != nil {
		h.ID, h.Incarnation, h.Type = c.id, c.gen, c.policy.typ
	}
	return h
}

// info returns a snapshot of a child.
func (k *core) info(c *child) ChildInfo {
	l, w := k.governs(c)
	i := ChildInfo{
		ID: c.id, Type: c.policy.typ, State: c.state, Incarnation: c.gen, Restarts: int(c.restarts),
		Limit: l, InWindow: w.count(k.now, l), Reason: c.reason,
	}
	if m := c.more; m != nil {
		i.LastExit, i.Arg = m.exit, m.arg
		if i.ShortLived = int(m.short); c.state == Running && k.now-c.began >= c.policy.backoff.shortLife() {
			i.ShortLived = 0
		}
		if m.nextAt != 0 && c.state != Running {
			i.NextAt = k.epoch.Add(m.nextAt)
		}
	}
	if c.state.alive() {
		i.StartedAt = k.epoch.Add(c.began)
		i.Uptime = k.now - c.began
		if at := k.roomAt(c); at > k.now {
			i.RoomAt = k.epoch.Add(at)
		}
	}
	if c.inc != nil && c.inc.more != nil {
		i.Sub, _ = c.inc.more.proc.(*Supervisor)
	}
	return i
}
