// Package liveness decides when an agent that runs is unhealthy: it has been
// silent for longer than it promised, or makes no progress. One silence is not
// enough: the agent is probed, nudged, given some more time, and only then
// failed, with the reason.
//
// A Watch is a pure state machine: it takes what was heard and the time, and
// returns what to do. Times must be readings of the monotonic clock, as time.Now
// returns them.
package liveness

import (
	"fmt"
	"time"
)

// Bounds of the time between the nudge, or the probe of an agent that cannot be
// nudged, and the failure. In between it is half of the timeout.
const (
	minGrace = 5 * time.Second
	maxGrace = 5 * time.Minute
)

// pulse is the time between two looks at an agent that is under suspicion. A
// look that comes later than asked for by more than a pulse shows that the daemon that
// watches was away (stopped, or starved), so that signs may have been missed:
// that time does not count.
const pollInterval = time.Second

// Timeouts are what an agent promises. Zero: that is not watched.
type Timeouts struct {
	Heartbeat time.Duration // the longest time without any sign of it
	Progress  time.Duration // the longest time in which its progress stays the same
	Nudge     bool          // there is a way to nudge it
}

// Cause is which of the two promises an action is about.
type Cause uint8

const (
	Heartbeat Cause = iota
	Progress
)

func (c Cause) String() string { return [...]string{"heartbeat", "progress"}[c] }

// Step is what is to be done.
type Step uint8

const (
	None  Step = iota
	Probe      // look what the agent does, and tell
	Nudge      // remind it
	Fail       // end it as a failure
)

func (s Step) String() string { return [...]string{"none", "probe", "nudge", "fail"}[s] }

// Action is what Tick wants to be done.
type Action struct {
	Step   Step
	Cause  Cause
	Reason string // in words, unless Step is None
}

// Watch is what is known of how one incarnation gets on. The zero value takes in
// what it says, and expects nothing of it until Begin. It is for one goroutine
// at a time.
type Watch struct {
	beat, step clock
	heard      bool
	number     *int64
	note       string
	waiting    time.Time // since when it waits for a person; zero: it does not
	due        time.Time // when Tick is to be called again; zero: never
}

// clock is one of the two promises.
type clock struct {
	cause   Cause
	timeout time.Duration
	nudge   bool
	last    time.Time // when it was kept last
	since   time.Time // the same, without the time that does not count
	stage   stage
	warned  time.Time // when the stage was reached
}

// stage is how far up the ladder a clock is.
type stage uint8

const (
	healthy stage = iota
	probed
	nudged
	failed
)

// Begin begins to expect something of an incarnation: it has become ready, or
// is taken over from another watcher, and what that one knew does not count.
func (w *Watch) Begin(now time.Time, t Timeouts) {
	w.beat = clock{cause: Heartbeat, timeout: t.Heartbeat, nudge: t.Nudge, last: now, since: now}
	w.step = clock{cause: Progress, timeout: t.Progress, nudge: t.Nudge, last: now, since: now}
	w.due = w.next(now)
}

// Sign says that something was heard of the agent: a heartbeat, a call,
// WATCHDOG=1. It reports whether that ends an episode: the agent was
// under suspicion of being silent.
func (w *Watch) Sign(now time.Time) (recovered bool) {
	w.heard = true
	return w.beat.reset(now)
}

// Progress is a Sign with a claim of how far the agent is. What is nil or
// empty is as it was. It reports whether an episode is over; a claim that says nothing
// new ends only that of silence.
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

// Wait says whether the agent waits for a person from now on. While it does
// both clocks stand still, and whatever it was suspected of is forgotten.
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

// Due is when Tick is to be called; zero: there is nothing to wait for. It
// may move to a later time, never to an earlier one, but by Wait.
func (w *Watch) Due() time.Time { return w.due }

// Tick says what is to be done now; Due is when to ask again. known says
// whether the agent is known to be alive at this moment: what is not known
// is no reason to act.
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
		w.due = now // there may be more
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

// next is when something can be due, if nothing is now.
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

// hold makes the time between from and to not count.
func (w *Watch) hold(from, to time.Time) {
	w.beat.hold(from, to)
	w.step.hold(from, to)
}

// kept restarts the clock.
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

// tick takes one step up the ladder, if it is time.
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

// next is when tick can have something to do; zero: never.
func (c *clock) next(now time.Time) time.Time {
	switch {
	case c.timeout <= 0:
		return time.Time{}
	case c.stage == healthy:
		return c.since.Add(c.timeout)
	}
	// Under suspicion each pulse is looked for, so that one in which no daemon
	// watched is noticed.
	if end := c.warned.Add(grace(c.timeout)); end.Before(now.Add(pollInterval)) {
		return end
	}
	return now.Add(pollInterval)
}

// reason says why an action is taken. A failure is final.
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

// Claim is a claim of progress in words, such as 42 "parsing"; "" for none.
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

// Brief is a duration as people write it: no more than two units.
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

// State is a Watch for people.
type State struct {
	Timeouts
	Heard     bool      // there was a sign of it
	Heartbeat time.Time // when the last one was; when it was begun to be watched if there was none
	Progress  time.Time // when what follows has changed; the same if it has not
	Number    *int64    // as last claimed; nil if never
	Note      string
	Waiting   bool // for a person
	Suspected bool // of being silent, or of not getting on
}

// State says what is known.
func (w *Watch) State() State {
	return State{
		Timeouts: Timeouts{w.beat.timeout, w.step.timeout, w.beat.nudge},
		Heard:    w.heard, Heartbeat: w.beat.last, Progress: w.step.last, Number: w.number, Note: w.note,
		Waiting: !w.waiting.IsZero(), Suspected: w.beat.stage != healthy || w.step.stage != healthy,
	}
}
