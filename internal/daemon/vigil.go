package daemon

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/notice"
	"github.com/coppice-dev/coppice/internal/spec"
)

// vigil is what the watchdog of one incarnation goes by. All times are read from
// the monotonic clock, which stands still while the machine is suspended.
type vigil struct {
	period time.Duration // from one WATCHDOG=1 to the next; 0: it may be silent for ever
	grace  time.Duration // that it may take to end at least, once it has said that it stops
	since  time.Time     // from then on nothing that it said was missed
}

var errTriggered = errors.New("watchdog: it has found itself broken (WATCHDOG=trigger)")

// judge decides whether the incarnation has to go, and why. If not, it may be
// silent until next; zero: for ever.
func (v vigil) judge(n notice.Notice, now time.Time) (next time.Time, reason error) {
	switch {
	case n.Since.IsZero(): // nobody listens
		return time.Time{}, nil
	case n.Triggered:
		return time.Time{}, errTriggered
	case v.period <= 0:
		return time.Time{}, nil
	}
	period := v.period
	if n.Period > 0 {
		period = max(n.Period, spec.MinWatchdog)
	}
	last := latest(v.since, n.Since, n.Alive)
	stopping := !n.Stopping.IsZero()
	if stopping {
		period, last = max(period, v.grace), latest(last, n.Stopping)
	}
	if next = latest(last.Add(period), n.Until); now.Before(next) {
		return next, nil
	}
	switch {
	case stopping:
		return time.Time{}, fmt.Errorf("watchdog: it said that it stops, and has not ended within %v", period)
	case n.Heard.Sub(last) > vigilPace: // less is the time that a word was on its way
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
	// vigilPace is the longest time between two looks.
	vigilPace = time.Second
	// vigilLate is how late a look may come. A controller that did not run
	// meanwhile has not heard, in time, what was said.
	vigilLate = time.Second
)

// watch condemns an incarnation that its watchdog finds guilty.
func (v vigil) watch(s runtime.Session, p *process) {
	v.since = time.Now()
	wait := vigilPace
	for {
		due := time.Now().Add(wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.Done():
			timer.Stop()
			return
		}
		wait = vigilPace
		now, seen := time.Now(), s.Observe()
		if now.Sub(due) > vigilLate || seen.Life != runtime.Alive && !asked(s) {
			v.since = time.Now()
			continue
		}
		next, reason := v.judge(seen.Said, now)
		if reason == nil {
			if !next.IsZero() {
				wait = min(wait, next.Sub(now))
			}
			continue
		}
		// It may have said something that is on its way.
		if !asked(s) {
			v.since = time.Now()
			continue
		}
		if _, reason = v.judge(s.Observe().Said, time.Now()); reason != nil && p.condemn(reason, syscall.SIGABRT) {
			return
		}
	}
}

// askTime bounds a question to a runtime.
const askTime = 5 * time.Second

// asked reports whether who runs the incarnation answers: then all that was said
// before the question is known now.
func asked(s runtime.Session) bool {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	_, err := s.LastActivity(ctx)
	return err == nil && s.Observe().Life == runtime.Alive
}
