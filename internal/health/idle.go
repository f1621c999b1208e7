package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

const (
	// idleRetry is the longest time between two checks of an excused agent, and between two attempts
	// to get the last activity from a runtime that cannot tell it now.
	idleRetry = time.Second
	// idleMargin is added to the time after which an agent may be idle, so that a check is not early.
	idleMargin = time.Millisecond
)

// watchIdle starts to watch whether an incarnation exceeds its idle_timeout. It replaces an earlier
// watch of the incarnation.
func (m *Monitor) watchIdle(i *Incarnation, a *spec.Agent) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopIdle != nil {
		i.stopIdle()
		i.stopIdle = nil
	}
	if a.IdleTimeout > 0 {
		var ctx context.Context
		ctx, i.stopIdle = context.WithCancel(i.agent.Context())
		go i.runIdle(ctx, i.agent, a)
	}
}

// runIdle checks an incarnation whenever its idle_timeout may have passed, and requests a
// reconciliation if it has. An incarnation is excused while it waits for a person or is drained.
func (i *Incarnation) runIdle(ctx context.Context, agent Agent, a *spec.Agent) {
	var clock idleClock
	s := agent.Session()
	o := s.Observe()
	defer i.setIdle(0, 0)
	if ready := i.readyAt(); !o.StartedAt.Before(i.m.created) && ready.After(o.StartedAt) {
		clock.excuse(ready) // not if an earlier daemon started it: then the time before counts
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if agent.Leaving() {
			return
		}
		now := time.Now()
		excused := i.m.excused(i.who.Path, now)
		if clock.excuse(excused); excused.Equal(now) {
			i.setIdle(0, 0)
			timer.Reset(min(idleRetry, a.IdleTimeout))
			continue
		}
		last, err := lastActivity(s)
		switch {
		case errors.Is(err, errNoActivity):
			i.m.logIdleUnknown(i, a)
			return
		case err != nil: // unknown at the moment
			timer.Reset(idleRetry)
			continue
		}
		now = time.Now()
		clock.excuse(i.m.excused(i.who.Path, now)) // since the runtime was asked
		if idle := clock.update(last, now, now.Round(0)); idle <= a.IdleTimeout {
			i.setIdle(0, 0)
			timer.Reset(a.IdleTimeout - idle + idleMargin)
		} else {
			i.setIdle(idle, a.IdleTimeout)
			i.m.opts.Reconcile()
			timer.Reset(idleRetry) // it may become active before it is failed
		}
	}
}

func (i *Incarnation) readyAt() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ready
}

// setIdle records how long the incarnation has been idle; 0 means that it is not.
func (i *Incarnation) setIdle(idle, timeout time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.idle, i.idleTimeout = idle, timeout
}

// Idle returns how long the incarnation has been idle if that exceeds its idle_timeout, otherwise 0.
func (i *Incarnation) Idle() time.Duration {
	if i == nil {
		return 0
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.idle
}

// excused returns the time until which idleness of an agent does not count: now if it is excused at
// the moment, zero if it never was.
func (m *Monitor) excused(path string, now time.Time) time.Time {
	i := m.Latest(path)
	if i == nil || m.opts.Fleet.Draining(path) {
		return now
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.watch.State().Waiting {
		return now
	}
	return i.waited
}

// errNoActivity is returned for a runtime that does not record input and output.
var errNoActivity = errors.New("the runtime cannot tell when an agent reads or writes")

// lastActivity returns the time of the last input or output of an incarnation, or of its start if
// that was later.
func lastActivity(s runtime.Session) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout)
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

// Activity is the last input or output of an agent.
type Activity struct {
	Last   time.Time
	Idle   time.Duration // the part since then that counts for idle_timeout
	Counts bool          // the agent is not excused now
}

// Activity returns the last activity of an agent. It reports false if that is unknown, or if the
// agent has no idle_timeout.
func (m *Monitor) Activity(path string) (at Activity, ok bool) {
	a, i := m.opts.Fleet.Spec(path), m.running(path)
	if a == nil || a.IdleTimeout <= 0 || i == nil {
		return Activity{}, false
	}
	last, err := lastActivity(i.agent.Session())
	if err != nil {
		return Activity{}, false
	}
	now := time.Now()
	since := m.excused(path, now)
	return Activity{Last: last, Idle: max(0, now.Sub(latest(last, since))), Counts: !since.Equal(now)}, true
}

// logIdleUnknown logs, once for each agent, that its idle_timeout has no effect.
func (m *Monitor) logIdleUnknown(i *Incarnation, a *spec.Agent) {
	m.mu.Lock()
	logged := m.idleUnknown[i.who.Path]
	m.idleUnknown[i.who.Path] = true
	m.mu.Unlock()
	if logged {
		return
	}
	m.opts.Append(m.event(event.AgentIdleUnknown, i.who, fmt.Sprintf("%s: %v; its idle_timeout of %s does nothing",
		i.who.Path, errNoActivity, liveness.Brief(a.IdleTimeout))).
		With(map[string]any{"runtime": a.Runtime.String()}))
}

// FailIdle fails the incarnation of an agent that is idle. Its supervisor and its limits decide what
// follows. FailIdle does nothing if the agent has become active.
func (m *Monitor) FailIdle(path string) {
	i := m.running(path)
	if i == nil {
		return
	}
	i.mu.Lock()
	idle, timeout := i.idle, i.idleTimeout
	i.idle = 0
	i.mu.Unlock()
	if idle == 0 {
		return
	}
	reason := fmt.Errorf("idle: no input or output for %s", liveness.Brief(idle))
	if !i.agent.Fail(reason, 0) {
		return
	}
	m.opts.Append(m.event(event.AgentIdleKilled, i.who,
		fmt.Sprintf("%s is ended as a failure: %v, longer than its idle_timeout of %s",
			path, reason, liveness.Brief(timeout))).
		With(map[string]any{"idle_seconds": idle.Seconds(), "idle_timeout_seconds": timeout.Seconds()}))
}
