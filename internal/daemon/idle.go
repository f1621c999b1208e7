package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

// idleness is for how long an incarnation has neither read nor written anything.
// Runtimes tell the time of that by the wall clock, which may be set: of a time
// that is seen for the first time the age is taken, and from then on the
// monotonic clock counts. It stands still while the machine is suspended.
type idleness struct {
	last  time.Time     // of the last input or output, as the runtime tells it
	age   time.Duration // that it had when it was seen first
	seen  time.Time     // when that was
	since time.Time     // from then on it counts; zero: from the beginning
}

// look takes in when the last input or output was, and returns for how long the
// incarnation has been idle.
func (i *idleness) look(last, now time.Time) time.Duration { return i.lookAt(last, now, now.Round(0)) }

// lookAt is look with both clocks: wall has no reading of the monotonic one.
func (i *idleness) lookAt(last, now, wall time.Time) time.Duration {
	if i.seen.IsZero() || !last.Equal(i.last) {
		age := max(0, wall.Sub(last.Round(0)))
		if !i.seen.IsZero() { // it was there at the look before, or has come since
			age = min(age, i.age+now.Sub(i.seen))
		}
		i.last, i.age, i.seen = last, age, now
	}
	idle := i.age + now.Sub(i.seen)
	if !i.since.IsZero() {
		idle = min(idle, now.Sub(i.since))
	}
	return idle
}

// excuse begins the time anew: that nothing was read or written before does not
// count.
func (i *idleness) excuse(at time.Time) {
	if at.After(i.since) {
		i.since = at
	}
}

const (
	// idlePause is the longest time between two looks at whether an agent that is
	// excused still is, and between two tries to learn what cannot be told now.
	idlePause = time.Second
	// idleGrain is how much longer than its timeout an agent is idle at least.
	idleGrain = time.Millisecond
)

// mindIdle begins to watch whether an incarnation neither reads nor writes
// anything for longer than its idle_timeout, or goes on with another one.
func (c *Controller) mindIdle(p *process, a *spec.Agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unmind != nil {
		p.unmind()
		p.unmind = nil
	}
	if a.IdleTimeout > 0 {
		var ctx context.Context
		ctx, p.unmind = context.WithCancel(p.ctx)
		go c.watchIdle(ctx, p, a)
	}
}

// amend applies what has changed of an agent that lives, without a restart.
func (c *Controller) amend(path string) {
	if p, a := c.processes.of(path), c.fleet().agents[path]; p != nil && a != nil {
		c.mindIdle(p, a)
	}
}

// idling is an incarnation that is idle for longer than it may be.
type idling struct {
	who  api.Caller
	p    *process
	a    *spec.Agent
	idle time.Duration
}

// watchIdle looks at an incarnation when it could have become idle, and has a
// round made when it has. One that waits for a person, and one that was asked to
// finish what it does, are excused.
func (c *Controller) watchIdle(ctx context.Context, p *process, a *spec.Agent) {
	var i idleness
	o := p.session.Observe()
	who := api.Caller{Path: o.Path, Incarnation: o.Incarnation}
	defer c.noteIdle(idling{who: who, p: p})
	if !o.StartedAt.Before(c.started) && p.ready.After(o.StartedAt) {
		i.excuse(p.ready) // what was taken over has been idle before
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if p.leaves() {
			return
		}
		now := time.Now()
		excused := c.excused(who.Path, now)
		if i.excuse(excused); excused.Equal(now) {
			c.noteIdle(idling{who: who, p: p})
			timer.Reset(min(idlePause, a.IdleTimeout))
			continue
		}
		last, err := c.activity(p.session)
		switch {
		case errors.Is(err, errNoActivity):
			c.untellable(who, a)
			return
		case err != nil: // it cannot be told now
			timer.Reset(idlePause)
			continue
		}
		now = time.Now()
		i.excuse(c.excused(who.Path, now)) // since it was asked
		if idle := i.look(last, now); idle <= a.IdleTimeout {
			c.noteIdle(idling{who: who, p: p})
			timer.Reset(a.IdleTimeout - idle + idleGrain)
		} else {
			c.noteIdle(idling{who, p, a, idle})
			c.patrols.kick()
			timer.Reset(idlePause) // it may wake up before the round comes to it
		}
	}
}

// noteIdle notes for how long an incarnation is idle, or that it is not if that is 0.
func (c *Controller) noteIdle(at idling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.idle > 0 {
		c.idle[at.who.Path] = at
	} else if c.idle[at.who.Path].p == at.p {
		delete(c.idle, at.who.Path)
	}
}

// excused is until when an agent could be idle with good reason: now if it may
// be, zero if it never could.
func (c *Controller) excused(path string, now time.Time) time.Time {
	v := c.vital(path)
	if v == nil || c.drains.Has(path) { // it has ended, or is to finish
		return now
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watch.State().Waiting {
		return now
	}
	return v.waited
}

// errNoActivity: the runtime does not know when an agent reads and writes.
var errNoActivity = errors.New("the runtime cannot tell when an agent reads or writes")

// activity is when an incarnation has read or written something last, or was
// started if that was later.
func (c *Controller) activity(s runtime.Session) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	last, err := s.LastActivity(ctx)
	switch {
	case errors.Is(err, runtime.ErrUnsupported) || err == nil && last.IsZero():
		return time.Time{}, errNoActivity
	case err != nil:
		return time.Time{}, err
	}
	o := s.Observe()
	if o.Life != runtime.Alive {
		return time.Time{}, runtime.ErrUnknown
	}
	return latest(last, o.StartedAt), nil
}

// untellable says, once for each agent, that its idle_timeout means nothing.
func (c *Controller) untellable(who api.Caller, a *spec.Agent) {
	c.mu.Lock()
	said := c.unwatched[who.Path]
	c.unwatched[who.Path] = true
	c.mu.Unlock()
	if said {
		return
	}
	c.log.Append(event.Event{
		Type: event.AgentIdleUnknown, Path: who.Path, Incarnation: who.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s: %v; its idle_timeout of %s does nothing", who.Path, errNoActivity, liveness.Brief(a.IdleTimeout)),
	}.With(map[string]any{"runtime": a.Runtime.String()}))
}

// endIdle ends the incarnation of an agent that is idle, as a failure: its
// supervisor and its limits decide what comes next.
func (c *Controller) endIdle(path string) {
	c.mu.Lock()
	at, ok := c.idle[path]
	delete(c.idle, path)
	c.mu.Unlock()
	if !ok {
		return // it has woken up
	}
	who, a, idle := at.who, at.a, at.idle
	reason := fmt.Errorf("idle: no input or output for %s", liveness.Brief(idle))
	if !at.p.condemn(reason, 0) {
		return
	}
	c.log.Append(event.Event{
		Type: event.AgentIdleKilled, Path: who.Path, Incarnation: who.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s is ended as a failure: %v, longer than its idle_timeout of %s", who.Path, reason, liveness.Brief(a.IdleTimeout)),
	}.With(map[string]any{"idle_seconds": idle.Seconds(), "idle_timeout_seconds": a.IdleTimeout.Seconds()}))
}
