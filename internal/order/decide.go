package order

import (
	"fmt"
	"strings"
	"time"
)

// heldInterval is the time between two decisions about an order that is held.
const heldInterval = 10 * time.Second

const suspendedReason = "the project is suspended"

// decide decides whether an order fires.
func (e *Engine) decide(en *entry, now Now) {
	e.handleTimes(en, now)
	if en.hold > now.Up {
		en.check.ok = false
		return
	}
	en.hold = 0
	defer e.keep(en)
	en.held = false
	if !en.enabled() {
		en.s.Waiting, en.pending, en.causes, en.check.ok = time.Time{}, nil, nil, false
		if !en.s.Asked {
			return
		}
	}
	if held := e.heldFor(en.o); held != "" {
		en.held, en.check.ok = true, false
		if !en.s.Waiting.IsZero() && !en.o.CatchUp {
			e.drop(en, held, now)
			en.skip = held
		}
		return
	}
	busy := en.running > 0 && en.o.Overlap != Allow
	if busy {
		en.check.ok = false
		if !en.s.Waiting.IsZero() && en.o.Overlap == Skip {
			e.drop(en, "it is still running", now)
		}
		return
	}
	switch {
	case en.s.Asked:
		e.fire(en, "by hand", "", now)
		return
	case !en.enabled():
		return
	}
	e.slowDown(en, now)
	open, waiting, reasons := 0, 0, []string(nil)
	for _, g := range en.o.Gates {
		if ok, reason := en.gate(g, now); ok {
			open++
			reasons = append(reasons, reason)
		} else if g.Kind != Condition {
			waiting++
		}
	}
	// The result of a check counts for this decision only. Otherwise it would fire later, or
	// the check would run again at once.
	en.check.ok = false
	switch {
	case open > 0 && open == len(en.o.Gates), !en.o.All && open > 0:
		e.fire(en, strings.Join(reasons, "; "), "", now)
	case en.o.Gate(Condition) != nil && en.check.Due(now.Up) && (!en.o.All || waiting == 0):
		en.check.Begin()
		e.out = append(e.out, Action{Do: Check, Order: en.o, State: en.s})
	}
}

// handleTimes handles the times of schedules that have come.
func (e *Engine) handleTimes(en *entry, now Now) {
	if en.next.IsZero() || en.next.After(now.Wall) {
		return
	}
	first := en.next
	late := now.Wall.Add(-tolerance - 1)
	if en.s.Considered.After(late) {
		late = en.s.Considered
	}
	at := nextTime(en.o, late) // the first one within the tolerance
	en.s.Considered, en.dirty = now.Wall.Round(0), en.dirty || en.enabled() && !e.suspended && !en.held
	en.next = nextTime(en.o, now.Wall)
	switch {
	case !at.After(now.Wall):
		en.s.Waiting = at
	case en.o.CatchUp && en.enabled():
		en.s.Waiting = first
	case en.enabled():
		e.drop(en, missed(first), now)
	}
}

// gate reports whether a gate is open, and why.
func (en *entry) gate(g Gate, now Now) (open bool, reason string) {
	switch g.Kind {
	case Cooldown:
		if en.s.Fired.IsZero() {
			return true, "never run"
		}
		since := now.Since(en.s.Fired)
		if since >= g.Interval {
			return true, fmt.Sprintf("the last run was %v ago", round(since))
		}
		return false, fmt.Sprintf("cooldown: %v remaining", round(g.Interval-since))
	case Cron:
		if at := en.s.Waiting; !at.IsZero() && (g.Schedule.Next(at.Add(-time.Second)).Equal(at)) {
			return true, "it is time: " + at.In(g.Schedule.Zone()).Format(time.RFC3339)
		}
		return false, "not before " + g.Schedule.Next(now.Wall).Format(time.RFC3339)
	case Condition:
		if en.check.ok {
			return true, "its condition holds"
		}
		return false, "its condition does not hold"
	case Event:
		events := fmt.Sprintf("%d events", len(en.pending))
		switch len(en.pending) {
		case 0:
			return false, "no event"
		case 1:
			events = "1 event"
		}
		if wait := en.paced(now); wait > 0 {
			return false, fmt.Sprintf("%s, but it was fired too often: %v remaining", events, round(wait))
		}
		return true, events
	}
	return false, "only by hand"
}

func round(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// schedule puts an entry into the queues.
func (e *Engine) schedule(en *entry, now Now) {
	e.walls.set(en, en.next, !en.next.IsZero())
	var ok bool
	en.up.after, ok = en.waits(e, now)
	e.ups.set(en, time.Time{}, ok)
}

// waits returns the time since boot at which the next decision is due.
func (en *entry) waits(e *Engine, now Now) (at time.Duration, ok bool) {
	if en.hold > now.Up {
		return en.hold, true
	}
	switch {
	case !en.enabled() && !en.s.Asked || e.suspended:
		return 0, false
	case en.held:
		return now.Up + heldInterval, true
	}
	if en.running > 0 && en.o.Overlap != Allow {
		return 0, false // Ended touches it
	}
	consider := func(t time.Duration) {
		if t > now.Up && (!ok || t < at) {
			at, ok = t, true
		}
	}
	closed := 0
	for _, g := range en.o.Gates {
		open, _ := en.gate(g, now)
		if !open && g.Kind != Condition {
			closed++
		}
		if g.Kind == Event && !open && len(en.pending) > 0 {
			consider(now.Up + en.paced(now))
		}
		if g.Kind == Cooldown && !open {
			consider(now.Up + g.Interval - now.Since(en.s.Fired))
		}
	}
	if next, idle := en.check.Next(); en.o.Gate(Condition) != nil && idle && (!en.o.All || closed == 0) {
		consider(max(next, now.Up+1))
	}
	return at, ok
}
