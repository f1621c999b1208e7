package health

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/spec"
)

// watchdog fails an incarnation that misses its sd_notify watchdog. All times are readings of the
// monotonic clock, which stands still while the machine is suspended.
type watchdog struct {
	period time.Duration // the longest time between two WATCHDOG=1; 0: unlimited
	grace  time.Duration // the least time to stop after STOPPING=1
	since  time.Time     // from then on the daemon has missed no message
}

// ErrTriggered is the failure of an agent that sent WATCHDOG=trigger.
var ErrTriggered = errors.New("watchdog: the agent has reported a failure (WATCHDOG=trigger)")

// judge returns the reason to fail the incarnation, if there is one. Otherwise next is the time until
// which it may be silent; zero means no limit.
func (w watchdog) judge(n sdnotify.Notice, now time.Time) (next time.Time, reason error) {
	switch {
	case n.Since.IsZero(): // there is no listener
		return time.Time{}, nil
	case n.Triggered:
		return time.Time{}, ErrTriggered
	case w.period <= 0:
		return time.Time{}, nil
	}
	period := w.period
	if n.Period > 0 {
		period = max(n.Period, spec.MinWatchdog)
	}
	last := latest(w.since, n.Since, n.Alive)
	stopping := !n.Stopping.IsZero()
	if stopping {
		period, last = max(period, w.grace), latest(last, n.Stopping)
	}
	if next = latest(last.Add(period), n.Until); now.Before(next) {
		return next, nil
	}
	switch {
	case stopping:
		return time.Time{}, fmt.Errorf("watchdog: has not ended within %v of STOPPING=1", period)
	case n.Heard.Sub(last) > watchdogInterval: // within the interval it was sent together with the last one
		return time.Time{}, fmt.Errorf("watchdog: no WATCHDOG=1 for %v", period)
	}
	return time.Time{}, fmt.Errorf("watchdog: nothing heard for %v", period)
}

func latest(first time.Time, more ...time.Time) time.Time {
	for _, t := range more {
		if t.After(first) {
			first = t
		}
	}
	return first
}

const (
	// watchdogInterval is the longest time between two checks.
	watchdogInterval = time.Second
	// watchdogLate is the largest delay of a check. A later one shows that the daemon itself was
	// stopped or starved, and may have received messages too late.
	watchdogLate = time.Second
)

// run watches an incarnation until it ends, or is failed.
func (w watchdog) run(agent Agent) {
	s := agent.Session()
	w.since = time.Now()
	wait := watchdogInterval
	for {
		due := time.Now().Add(wait)
		select {
		case <-time.After(wait):
		case <-agent.Context().Done():
			return
		}
		wait = watchdogInterval
		now, seen := time.Now(), s.Observe()
		if now.Sub(due) > watchdogLate || seen.Life != runtime.Alive && !answers(s) {
			w.since = time.Now()
			continue
		}
		next, reason := w.judge(seen.Said, now)
		if reason == nil {
			if !next.IsZero() {
				wait = min(wait, next.Sub(now))
			}
			continue
		}
		// A message may be under way.
		if !answers(s) {
			w.since = time.Now()
			continue
		}
		_, reason = w.judge(s.Observe().Said, time.Now())
		if reason != nil && agent.Fail(reason, syscall.SIGABRT) {
			return
		}
	}
}

// runtimeTimeout bounds a query of a runtime.
const runtimeTimeout = 5 * time.Second

// answers reports whether the runtime of a living incarnation answers. Then Observe returns all
// messages that were sent before the call.
func answers(s runtime.Session) bool {
	ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout)
	defer cancel()
	_, err := s.LastActivity(ctx)
	return err == nil && s.Observe().Life == runtime.Alive
}
