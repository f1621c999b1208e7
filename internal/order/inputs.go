package order

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// Errors of Ask and Enable.
var (
	ErrUnknown   = errors.New("there is no such order")
	ErrRunning   = errors.New("it is running")
	ErrSuspended = errors.New("it may not be fired")
	ErrCaused    = errors.New("it has led to the order that asks for it")
)

// Ask fires an order by hand, regardless of its gates. queued reports that it fires after the run in
// progress. The next Step returns the action, with the asker. by may be the path of an order whose
// run asks for it.
func (e *Engine) Ask(name, by string, asker any, now Now) (queued bool, err error) {
	en := e.entries[name]
	var led []string
	if from, ok := strings.CutPrefix(by, PathOf("")); ok {
		led = e.causes.of(from)
	}
	switch {
	case en == nil:
		return false, ErrUnknown
	case slices.Contains(led, name):
		return false, fmt.Errorf("%w: %s", ErrCaused, strings.Join(led, ", "))
	case e.heldFor(en.o) != "":
		return false, fmt.Errorf("%w: %s", ErrSuspended, e.heldFor(en.o))
	case en.running == 0 || en.o.Overlap == Allow:
		en.causes = joined(en.causes, led)
		e.fire(en, "by hand", by, now)
		e.out[len(e.out)-1].Asker = asker
		e.schedule(en, now)
		return false, nil
	case en.o.Overlap == Queue:
		en.s.Asked, en.dirty = true, true
		en.causes = joined(en.causes, led)
		e.touch(en)
		return true, nil
	}
	return false, ErrRunning
}

// Withdraw drops a firing that was asked for and waits for the end of a run.
func (e *Engine) Withdraw(name string) {
	if en := e.entries[name]; en != nil && en.s.Asked {
		en.s.Asked, en.dirty = false, true
		e.touch(en)
	}
}

// Enable sets whether the gates of an order fire it, regardless of its file. Events and times while
// they could not fire it do not count.
func (e *Engine) Enable(name string, on bool, now Now) error {
	en := e.entries[name]
	if en == nil {
		return ErrUnknown
	}
	was := en.enabled()
	en.s.ByHand = DisabledByHand
	if on {
		en.s.ByHand = EnabledByHand
	}
	if on && !was {
		en.pass(e.seen, now)
		en.plan(now)
	}
	en.s.Off, en.dirty = !on, true
	e.touch(en)
	return nil
}

// Suspend sets whether all orders are kept from firing.
func (e *Engine) Suspend(on bool) {
	if on == e.suspended {
		return
	}
	e.suspended = on
	for _, en := range e.entries {
		e.touch(en)
	}
}

// heldFor returns why an order must not fire.
func (e *Engine) heldFor(o *Order) string {
	switch {
	case e.suspended:
		return suspendedReason
	case e.Held != nil:
		return e.Held(o)
	}
	return ""
}

// Led adds the causes of a run of the predecessor. Call it for the oldest run of an order
// first.
func (e *Engine) Led(order, run string, over bool, causes []string) {
	e.causes.fired(order, causes)
	if !over {
		e.causes.began(order, run, causes)
	}
}

// Began counts a run of the predecessor that is in progress.
func (e *Engine) Began(name string) {
	if en := e.entries[name]; en != nil {
		en.running++
		e.touch(en)
	}
}

// Ended records that a run has ended and no attempt follows.
func (e *Engine) Ended(name string) {
	if en := e.entries[name]; en != nil {
		en.running = max(0, en.running-1)
		e.touch(en)
	}
}

// Refused takes back a Fire, Drop or Keep that could not be stored. The engine decides again
// after a delay. Of several actions on an order, refuse the last one first.
func (e *Engine) Refused(a Action, now Now) {
	en := e.entries[a.Order.Name]
	if en == nil {
		return
	}
	en.hold = now.Up + retryDelay
	switch a.Do {
	case Fire:
		en.running = max(0, en.running-1)
		en.causes = joined(en.causes, a.Causes)
		en.s.Lead, en.s.LeadAt, en.s.PacedAt = a.before.Lead, a.before.LeadAt, a.before.PacedAt
		en.s.Fired, en.s.Waiting = a.before.Fired, a.before.Waiting
		en.s.Asked, en.s.Runs = a.before.Asked, a.before.Runs
		if len(a.taken) > 0 {
			en.s.Cursor, en.pending = a.before.Cursor, append(a.taken, en.pending...)
		}
	default:
		en.dirty = true
	}
	e.touch(en)
}

// Checked records the result of the check of an order.
func (e *Engine) Checked(name string, ok bool, now Now) {
	en := e.entries[name]
	if en == nil || !en.check.Running() {
		return
	}
	var every time.Duration
	if g := en.o.Gate(Condition); g != nil {
		every = g.Every
	}
	en.check.End(now.Up, every)
	en.check.ok = ok
	e.touch(en)
}

// Event counts an event. Call it for each event, in their order.
func (e *Engine) Event(ev event.Event) {
	switch {
	case ev.Type == event.EventsReset: // the log was replaced by a new one
		for _, en := range e.entries {
			en.pending, en.causes, en.s.Cursor, en.dirty = nil, nil, ev.Seq, true
			e.touch(en)
		}
		e.seen = ev.Seq
		return
	case ev.Seq <= e.seen && ev.Seq != 0:
		return
	}
	e.seen = ev.Seq
	e.causes.observe(ev)
	var led []string
	if from := orderOf(ev); from != "" {
		led = e.causes.of(from)
	}
	for _, en := range e.listeners.of(ev) {
		if ev.Seq > en.s.Cursor && wants(en.o, ev, led) && en.enabled() {
			en.pending = append(en.pending, ev.Seq)
			en.causes = joined(en.causes, led)
			e.touch(en)
		}
	}
}
