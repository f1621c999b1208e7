package order

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/gate"
)

// Do is the kind of an Action.
type Do uint8

// Kinds of actions.
const (
	Fire  Do = iota + 1 // store State and the run, then start it; call Refused if storing fails
	Check               // run the check of the order, then call Checked
	Drop                // report that the order was skipped, and store State
	Keep                // store State
	Slow                // report that events fire the order at a slower pace, and store State
)

// Action tells the caller to do something about an order.
type Action struct {
	Do     Do
	Order  *Order
	State  State
	Reason string   // why it fires, or does not
	By     string   // the person or order that fired it; "" for its gates
	Events *Batch   // of the run
	Causes []string // orders that have led to the run, sorted
	// Asker is the asker of Ask, if the run was asked for.
	Asker  any
	before State
	taken  []uint64
}

// Engine decides when orders fire. It is not safe for concurrent use.
type Engine struct {
	// Held, unless nil, returns why an order must not fire now, whatever its gates say, for
	// example because its target is suspended; "" if it may.
	Held func(*Order) string

	entries   map[string]*entry
	listeners listeners
	causes    causes
	walls     queue // by the calendar
	ups       queue // by the clock since boot
	last      Now
	seen      uint64 // the last event that was counted
	suspended bool
	out       []Action
	due       []*entry // to be decided about
}

// entry is an order with its state in the engine.
type entry struct {
	o       *Order
	s       State
	running int
	next    time.Time // of its schedules after Considered; zero if none
	pending []uint64  // events that count and belong to no run yet
	causes  []string  // orders that have led to these events, or have asked for a run
	check   struct {
		gate.Turn
		ok bool // it has succeeded since the last decision
	}
	hold  time.Duration // time before which it does not fire, as an action could not be stored
	skip  string        // the last reported reason for skipping it
	held  bool          // it was held at the last decision
	wall  place
	up    place
	dirty bool
}

const (
	// tolerance bounds how late a time of a schedule may be noticed and still fire.
	tolerance = time.Minute
	// setBack is the change of the clock beyond which times become due again.
	setBack = 3 * time.Hour
	// retryDelay is the delay after an action that could not be stored.
	retryDelay = 5 * time.Second
)

// New returns an engine for orders with their stored states. head is the number of the last
// event of the log: a new order gets the events after it.
func New(all []*Order, states map[string]State, head uint64, now Now) *Engine {
	e := &Engine{entries: make(map[string]*entry), last: now, seen: head}
	for _, o := range all {
		if s, ok := states[o.Name]; ok && !s.Off && o.Gate(Event) != nil {
			e.seen = min(e.seen, s.Cursor)
		}
	}
	e.Replace(all, states, head, now)
	return e
}

// Seen returns the number of the event after which Event is to be called.
func (e *Engine) Seen() uint64 { return e.seen }

// Replace replaces the orders. Those that stay keep their states; states has those of
// others, and Step returns new ones. The caller has to store the states of removed orders,
// which it returns.
func (e *Engine) Replace(all []*Order, states map[string]State, head uint64, now Now) (gone []State) {
	entries := make(map[string]*entry, len(all))
	e.walls, e.ups, e.due = queue{byWall: true}, queue{}, nil
	e.listeners = listeners{}
	for _, o := range all {
		en := e.entries[o.Name]
		if en == nil {
			en = &entry{}
			s, ok := states[o.Name]
			if !ok {
				s = State{Name: o.Name, Created: now.Wall.Round(0), Considered: now.Wall.Round(0),
					Schedules: schedules(o), Cursor: head}
				en.dirty = true
			}
			en.s = s
		}
		en.o, en.wall, en.up = o, place{}, place{}
		if en.s.Schedules != schedules(o) { // the times that have passed were of other schedules
			en.s.Schedules, en.s.Considered, en.s.Waiting, en.dirty = schedules(o), now.Wall.Round(0), time.Time{}, true
		}
		if en.s.Off && en.enabled() {
			en.pass(head, now)
		}
		if off := !en.enabled(); off != en.s.Off {
			en.s.Off, en.dirty = off, true
		}
		en.plan(now)
		entries[o.Name] = en
		e.listeners.add(en)
		e.touch(en)
	}
	for name, en := range e.entries {
		if entries[name] == nil {
			en.s.Off = true
			gone = append(gone, en.s)
		}
	}
	e.entries = entries
	return gone
}

// pass ignores everything that has happened so far.
func (en *entry) pass(head uint64, now Now) {
	en.s.Considered, en.s.Waiting = now.Wall.Round(0), time.Time{}
	en.s.Cursor, en.pending, en.causes = max(head, en.s.Cursor), nil, nil
}

// plan computes the next time of the schedules, and converts the last run to this boot.
func (en *entry) plan(now Now) {
	if f := &en.s.Fired; !f.IsZero() && f.Boot != now.Boot {
		f.Up, f.Boot = now.Up-now.Since(*f), now.Boot
	}
	if now.Wall.Before(en.s.Considered.Add(-setBack)) {
		en.s.Considered = now.Wall.Round(0)
	}
	en.next = nextTime(en.o, en.s.Considered)
}

// nextTime returns the first time of the schedules of an order; zero if it has none.
func nextTime(o *Order, after time.Time) (next time.Time) {
	for _, g := range o.Gates {
		if g.Kind == Cron {
			if t := g.Schedule.Next(after); next.IsZero() || t.Before(next) {
				next = t
			}
		}
	}
	return next
}

// Step returns what is to be done now, or part of it: call it again while Wait returns 0.
func (e *Engine) Step(now Now) []Action {
	// The clock was set back if less time has passed by the calendar than since boot.
	if jump := now.Wall.Sub(e.last.Wall) - (now.Up - e.last.Up); now.Boot == e.last.Boot && jump < -time.Minute {
		for _, en := range e.entries {
			en.plan(now)
			e.touch(en)
		}
	}
	e.last = now
	for len(e.due) < maxDecisions && len(e.walls.all) > 0 && !e.walls.all[0].wall.at.After(now.Wall) {
		e.touch(heap.Pop(&e.walls).(*entry))
	}
	for len(e.due) < maxDecisions && len(e.ups.all) > 0 && e.ups.all[0].up.after <= now.Up {
		e.touch(heap.Pop(&e.ups).(*entry))
	}
	e.out = slices.Grow(e.out, min(len(e.due), maxDecisions))
	i := 0
	for ; i < len(e.due) && i < maxDecisions; i++ { // due may grow
		en := e.due[i]
		en.wall.due = false
		e.decide(en, now)
		e.schedule(en, now)
	}
	e.due = slices.Delete(e.due, 0, i)
	out := e.out
	e.out = nil
	return out
}

// maxDecisions bounds the orders that one Step decides about, and so its duration. Wait
// returns 0 while some are left.
const maxDecisions = 250

// touch makes the next Step decide about an entry.
func (e *Engine) touch(en *entry) {
	if !en.wall.due {
		en.wall.due = true
		e.due = append(e.due, en)
	}
}

// Wait returns the time until something may have to be done if nothing happens before. It
// is at most longest, so that a change of the clock is noticed.
func (e *Engine) Wait(now Now, longest time.Duration) time.Duration {
	if len(e.due) > 0 {
		return 0
	}
	d := longest
	if len(e.walls.all) > 0 {
		d = min(d, e.walls.all[0].wall.at.Sub(now.Wall))
	}
	if len(e.ups.all) > 0 {
		d = min(d, e.ups.all[0].up.after-now.Up)
	}
	return max(0, d)
}

// Unsaved returns the states that no action has returned yet. The caller has to store them,
// or to call Refused.
func (e *Engine) Unsaved() (all []State) {
	for _, en := range e.entries {
		if en.dirty {
			en.dirty = false
			all = append(all, en.s)
		}
	}
	return all
}

// Progress returns the states of orders that wait for events and whose cursor is more than
// far behind. If they are stored now and then, the next engine has less of the log to read.
func (e *Engine) Progress(far uint64) (all []State) {
	for _, en := range e.entries {
		if en.o.Gate(Event) != nil && len(en.pending) == 0 && e.seen > en.s.Cursor+far {
			en.s.Cursor = e.seen
			all = append(all, en.s)
		}
	}
	return all
}

func (en *entry) enabled() bool {
	switch en.s.ByHand {
	case EnabledByHand:
		return true
	case DisabledByHand:
		return false
	}
	return !en.o.Disabled
}

// fire fires an order.
func (e *Engine) fire(en *entry, reason, by string, now Now) {
	a := Action{Do: Fire, Order: en.o, Reason: reason, By: by, Causes: en.causes, before: en.s}
	if g := en.o.Gate(Event); g != nil && len(en.pending) > 0 {
		n := min(len(en.pending), maxBatch)
		a.taken = slices.Clone(en.pending[:n])
		a.Events = &Batch{After: en.s.Cursor, Until: a.taken[n-1], Count: n, Types: g.On.Types, Path: g.On.Path}
		en.s.Cursor = a.Events.Until
		if en.pending = en.pending[n:]; len(en.pending) == 0 {
			en.pending = nil
		}
		en.s.advance(now)
	}
	if len(en.pending) == 0 {
		en.causes = nil
	}
	en.s.Fired, en.s.Waiting, en.s.Asked = now.Stamp(), time.Time{}, false
	e.causes.fired(en.o.Name, a.Causes)
	en.s.Runs++
	en.running++
	en.check.ok = false
	en.skip, en.dirty = "", false
	a.State = en.s
	e.out = append(e.out, a)
	if len(en.pending) > 0 {
		e.touch(en)
	}
}

// drop skips a time of a schedule.
func (e *Engine) drop(en *entry, reason string, now Now) {
	en.s.Waiting = time.Time{}
	en.s.Skips++
	en.s.Skipped, en.s.SkippedAt = reason, now.Wall.Round(0)
	if en.skip == reason { // which was reported already
		return
	}
	en.dirty = false
	e.out = append(e.out, Action{Do: Drop, Order: en.o, State: en.s, Reason: reason})
}

// keep returns the state to be stored, unless another action has.
func (e *Engine) keep(en *entry) {
	if en.dirty {
		en.dirty = false
		e.out = append(e.out, Action{Do: Keep, Order: en.o, State: en.s})
	}
}

// missed returns the reason for skipping a time that passed while no engine ran.
func missed(at time.Time) string {
	return fmt.Sprintf("%s has passed while nothing could be fired, and catch_up is off", at.Format(time.RFC3339))
}
