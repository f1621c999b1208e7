// Package liveness decides when a running agent is unhealthy: it has been silent for longer than its
// heartbeat timeout, or has made no progress for longer than its progress timeout. Such an agent is
// first probed, then nudged, and failed only after a grace period.
//
// A Watch is a pure state machine: it takes signs of life and the time, and returns what to do. Times
// must be readings of the monotonic clock, as time.Now returns them.
package liveness

import (
	"fmt"
	"time"
)

// Bounds of the grace period between the nudge and the failure, or between the probe and the failure
// of an agent that cannot be nudged. Within the bounds it is half of the timeout.
const (
	minGrace = 5 * time.Second
	maxGrace = 5 * time.Minute
)

// pollInterval is the time between two ticks while an agent is under suspicion. A tick that is late
// by more than that shows that the daemon was stopped or starved. Signs of life may have been missed
// then, so the delay does not count.
const pollInterval = time.Second

// Timeouts are the limits of an agent. A limit of zero is not watched.
type Timeouts struct {
	Heartbeat time.Duration // the longest time without a sign of life
	Progress  time.Duration // the longest time without a change of the reported progress
	Nudge     bool          // the agent can be nudged
}

// Cause is the timeout that caused an action.
type Cause uint8

const (
	Heartbeat Cause = iota
	Progress
)

func (c Cause) String() string { return [...]string{"heartbeat", "progress"}[c] }

// Step is a step to take.
type Step uint8

const (
	None  Step = iota
	Probe      // log what the agent does
	Nudge      // remind it
	Fail       // end it as a failure
)

func (s Step) String() string { return [...]string{"none", "probe", "nudge", "fail"}[s] }

// Action is what the caller of Tick must do.
type Action struct {
	Step   Step
	Cause  Cause
	Reason string // in words, unless Step is None
}

// Watch tracks the liveness of one incarnation. The zero value records signs of life, but expects
// none before Begin. A Watch is not safe for concurrent use.
type Watch struct {
	beat, step clock
	heard      bool
	number     *int64
	note       string
	waiting    time.Time // when it began to wait for a person; zero: it does not wait
	due        time.Time // when Tick must be called again; zero: never
}

// clock tracks one of the two timeouts.
type clock struct {
	cause   Cause
	timeout time.Duration
	nudge   bool
	last    time.Time // of the last sign or change
	since   time.Time // last, moved by the time that does not count
	stage   stage
	warned  time.Time // when the stage was reached, moved likewise
}

// stage is the last step that was taken for a clock.
type stage uint8

const (
	healthy stage = iota
	probed
	nudged
	failed
)

// Begin starts the clocks of an incarnation that has become ready or was adopted.
func (w *Watch) Begin(now time.Time, t Timeouts) {
	w.beat = clock{cause: Heartbeat, timeout: t.Heartbeat, nudge: t.Nudge, last: now, since: now}
	w.step = clock{cause: Progress, timeout: t.Progress, nudge: t.Nudge, last: now, since: now}
	w.due = w.next(now)
}

// Sign records a sign of life: a heartbeat, a call of the API, or WATCHDOG=1. It reports whether the
// agent was under suspicion for its silence and has recovered.
func (w *Watch) Sign(now time.Time) (recovered bool) {
	w.heard = true
	return w.beat.reset(now)
}

// Progress is a Sign with a report of progress; a nil number or an empty note means no change. It
// reports whether the agent has recovered. A report without a change ends only a suspicion for
// silence.
func (w *Watch) Progress(now time.Time, number *int64, note string) (recovered bool) {
	recovered = w.Sign(now)
	changed := false
	if number != nil && (w.number == nil || *w.number != *number) {
		w.number, changed = new(*number), true
	}
	if note != "" && w.note != note {
		w.note, changed = note, true
	}
	if changed {
		recovered = w.step.reset(now) || recovered
	}
	return recovered
}

// Wait records whether the agent waits for a person from now on. While it waits, both clocks stand
// still. A suspicion is dropped when the wait begins.
func (w *Watch) Wait(now time.Time, waits bool) {
	switch {
	case waits && w.waiting.IsZero():
		w.waiting = now
		w.beat.clear()
		w.step.clear()
	case !waits && !w.waiting.IsZero():
		w.hold(w.waiting, now)
		w.waiting = time.Time{}
	}
	w.due = w.next(now)
}

// Due returns the time to call Tick, or zero if nothing can become due. Only Wait moves it to an
// earlier time.
func (w *Watch) Due() time.Time { return w.due }

// Tick returns the action that is due now; Due returns when to call it again. It takes no action
// unless the agent is known to be alive at this moment.
func (w *Watch) Tick(now time.Time, known bool) Action {
	if w.due.IsZero() || now.Before(w.due) {
		return Action{}
	}
	if now.Sub(w.due) > pollInterval {
		w.hold(w.due, now)
	}
	var a Action
	if known {
		if a = w.beat.tick(now); a.Step == None {
			a = w.step.tick(now)
		}
	}
	switch {
	case a.Step != None:
		a.Reason = w.reason(a, now)
		w.due = now // another action may be due
		if a.Step == Fail {
			w.due = time.Time{}
		}
	case !known:
		w.due = now.Add(pollInterval)
	default:
		w.due = w.next(now)
	}
	return a
}

// next returns the earliest time at which an action can be due, given that none is now.
func (w *Watch) next(now time.Time) time.Time {
	if !w.waiting.IsZero() || w.beat.stage == failed || w.step.stage == failed {
		return time.Time{}
	}
	next := w.beat.next(now)
	if s := w.step.next(now); next.IsZero() || !s.IsZero() && s.Before(next) {
		next = s
	}
	return next
}

// hold excludes the time between from and to from both clocks.
func (w *Watch) hold(from, to time.Time) {
	w.beat.hold(from, to)
	w.step.hold(from, to)
}

// reset restarts the clock, and reports whether that ends a suspicion.
func (c *clock) reset(now time.Time) (recovered bool) {
	c.last, c.since = now, now
	return c.clear()
}

// clear drops a suspicion, and reports whether there was one.
func (c *clock) clear() bool {
	if c.stage != probed && c.stage != nudged {
		return false
	}
	c.stage = healthy
	return true
}

func (c *clock) hold(from, to time.Time) {
	c.since = shift(c.since, from, to)
	if c.stage != healthy {
		c.warned = shift(c.warned, from, to)
	}
}

// shift moves t by the part of the time between from and to that comes after t.
func shift(t, from, to time.Time) time.Time {
	if t.After(from) {
		from = t
	}
	return t.Add(max(0, to.Sub(from)))
}

// tick takes the next step if it is due.
func (c *clock) tick(now time.Time) Action {
	if c.timeout <= 0 {
		return Action{}
	}
	switch {
	case c.stage == healthy && now.Sub(c.since) >= c.timeout:
		c.stage, c.warned = probed, now
		return Action{Step: Probe, Cause: c.cause}
	case c.stage == probed && c.nudge:
		c.stage, c.warned = nudged, now
		return Action{Step: Nudge, Cause: c.cause}
	case (c.stage == probed || c.stage == nudged) && now.Sub(c.warned) >= grace(c.timeout):
		return Action{Step: Fail, Cause: c.cause}
	}
	return Action{}
}

func grace(timeout time.Duration) time.Duration { return min(max(timeout/2, minGrace), maxGrace) }

// next returns the earliest time at which tick can take a step; zero: never.
func (c *clock) next(now time.Time) time.Time {
	switch {
	case c.timeout <= 0:
		return time.Time{}
	case c.stage == healthy:
		return c.since.Add(c.timeout)
	}
	// Ticks come at every pollInterval, so that a time without a daemon is noticed.
	if end := c.warned.Add(grace(c.timeout)); end.Before(now.Add(pollInterval)) {
		return end
	}
	return now.Add(pollInterval)
}

// reason returns why an action is taken. After a failure the clock has no further steps.
func (w *Watch) reason(a Action, now time.Time) string {
	c := &w.beat
	what, timeout := "no heartbeat", "heartbeat_timeout"
	if a.Cause == Progress {
		c, what, timeout = &w.step, "no progress", "progress_timeout"
		if claim := Claim(w.number, w.note); claim != "" {
			what += " since " + claim
		}
	}
	text := fmt.Sprintf("%s for %s (%s %s)", what, Brief(now.Sub(c.since)), timeout, Brief(c.timeout))
	if a.Step == Fail {
		if c.stage == nudged {
			text += fmt.Sprintf(", nudged %s ago", Brief(now.Sub(c.warned)))
		}
		c.stage = failed
	}
	return text
}

// Claim returns reported progress as text, such as 42 "parsing"; "" if there is none.
func Claim(number *int64, note string) string {
	switch {
	case number == nil && note == "":
		return ""
	case number == nil:
		return fmt.Sprintf("%q", note)
	case note == "":
		return fmt.Sprint(*number)
	}
	return fmt.Sprintf("%d %q", *number, note)
}

// Brief formats a duration for prose, with at most two units and no zeros: "5s", "1h30m".
func Brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	d = d.Round(time.Second)
	h, m, s := d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second
	switch {
	case h > 0 && m > 0:
		return fmt.Sprintf("%dh%dm", h, m)
	case h > 0:
		return fmt.Sprintf("%dh", h)
	case s > 0:
		return fmt.Sprintf("%dm%ds", m, s)
	}
	return fmt.Sprintf("%dm", m)
}

// State is a snapshot of a Watch.
type State struct {
	Timeouts
	Heard     bool      // there was a sign of life
	Heartbeat time.Time // of the last sign of life, or of Begin if there was none
	Progress  time.Time // of the last change of Number or Note, or of Begin if there was none
	Number    *int64    // as last reported; nil if never
	Note      string
	Waiting   bool // for a person
	Suspected bool // for its silence or lack of progress
}

// State returns a snapshot.
func (w *Watch) State() State {
	return State{
		Timeouts: Timeouts{w.beat.timeout, w.step.timeout, w.beat.nudge},
		Heard:    w.heard, Heartbeat: w.beat.last, Progress: w.step.last, Number: w.number, Note: w.note,
		Waiting: !w.waiting.IsZero(), Suspected: w.beat.stage != healthy || w.step.stage != healthy,
	}
}
