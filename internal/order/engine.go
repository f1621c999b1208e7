package order

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// Do is what is to be done.
type Do uint8

// What can be.
const (
	Fire  Do = iota + 1 // write State and the run, then start it; Refused if that cannot be written
	Check               // run the check of the order, then call Checked
	Drop                // tell that it was skipped, and write State
	Keep                // write State
	Slow                // tell that events fire it at a slower pace, and write State
)

// Action is something to do about an order.
type Action struct {
	Do     Do
	Order  *Order
	State  State
	Reason string   // why it fires, or does not
	By     string   // who fired it, if not its gates
	Events *Batch   // that belong to the run
	Causes []string // orders that have led to the run, in alphabetical order
	// Asker is that of Ask, if somebody has asked for this run and waits for it.
	Asker  any
	before State
	taken  []uint64
}

// Engine decides about orders. One goroutine uses it.
type Engine struct {
	// Held says why an order must not fire for now, whatever its gates say,
	// such as that its target is suspended; empty if it may. It may be nil, and is asked
	// when an order is looked at.
	Held func(*Order) string

	entries   map[string]*entry
	listeners listeners
	causes    causes
	walls     queue // by the calendar
	ups       queue // by the clock that nobody sets
	last      Now
	seen      uint64 // the last event that was counted
	suspended bool
	out       []Action
	due       []*entry // that have to be looked at
}

// entry is an order and what is known of it beyond its State.
type entry struct {
	o       *Order
	s       State
	running int
	next    time.Time // of its schedules, after Considered; zero if none
	pending []uint64  // events that count and are not handed over
	causes  []string  // orders that have led to these, or have asked for a run
	check   struct {
		running bool
		ok      bool          // it has succeeded, and nothing was decided since
		next    time.Duration // not before
	}
	hold  time.Duration // nothing is fired before: what was to be written could not be
	told  string        // why it was skipped, where that goes on
	held  bool          // it was, when it was looked at last
	wall  place
	up    place
	dirty bool
}

const (
	// tolerance is how late a time of a schedule may be seen and still counts.
	tolerance = time.Minute
	// setBack is how far a clock is set back before the times since then are due again.
	setBack = 3 * time.Hour
	// holdTime is the pause after something could not be written.
	holdTime = 5 * time.Second
)

// New makes an engine for orders, whose states are those of before. head is the
// number of the last event of the log: an order that is new gets those after it.
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

// Seen is the number of the event from which on Event is to be called.
func (e *Engine) Seen() uint64 { return e.seen }

// Replace makes other orders those of the engine. What is known of those that
// stay is kept; states are of those that come. Step says what is new. gone are the
// states of those that are there no more, to be written by the caller.
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
		if en.s.Schedules != schedules(o) { // the times that have passed were others
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

// pass has all that has come to pass so far not count.
func (en *entry) pass(head uint64, now Now) {
	en.s.Considered, en.s.Waiting = now.Wall.Round(0), time.Time{}
	en.s.Cursor, en.pending, en.causes = max(head, en.s.Cursor), nil, nil
}

// plan finds the next time of the schedules, and how long ago the last run was.
func (en *entry) plan(now Now) {
	if f := &en.s.Fired; !f.IsZero() && f.Boot != now.Boot {
		f.Up, f.Boot = now.Up-now.Since(*f), now.Boot
	}
	if now.Wall.Before(en.s.Considered.Add(-setBack)) {
		en.s.Considered = now.Wall.Round(0)
	}
	en.next = nextTime(en.o, en.s.Considered)
}

// nextTime is the first time of the schedules of an order; zero if it has none.
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

// Step says what is to be done now, or the first part of it: until Wait is not 0.
func (e *Engine) Step(now Now) []Action {
	// The clock was set if the calendar has not gone as far as time has.
	if jump := now.Wall.Sub(e.last.Wall) - (now.Up - e.last.Up); now.Boot == e.last.Boot && jump < -time.Minute {
		for _, en := range e.entries {
			en.plan(now)
			e.touch(en)
		}
	}
	e.last = now
	for len(e.due) < atOnce && len(e.walls.all) > 0 && !e.walls.all[0].wall.at.After(now.Wall) {
		e.touch(heap.Pop(&e.walls).(*entry))
	}
	for len(e.due) < atOnce && len(e.ups.all) > 0 && e.ups.all[0].up.after <= now.Up {
		e.touch(heap.Pop(&e.ups).(*entry))
	}
	e.out = slices.Grow(e.out, min(len(e.due), atOnce))
	i := 0
	for ; i < len(e.due) && i < atOnce; i++ { // which may become more
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

// atOnce is how many orders a Step decides about at most, so that it takes
// little time whatever comes together. Wait is 0 while some are left.
const atOnce = 250

// touch has an entry looked at by the next Step.
func (e *Engine) touch(en *entry) {
	if !en.wall.due {
		en.wall.due = true
		e.due = append(e.due, en)
	}
}

// Wait is how long until something may have to be done, if nothing happens
// before; longest at most, so that a clock that was set is noticed.
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

// Unsaved are the states that nobody was told to write yet. Whoever asks writes them,
// or says by Refused that they cannot be.
func (e *Engine) Unsaved() (all []State) {
	for _, en := range e.entries {
		if en.dirty {
			en.dirty = false
			all = append(all, en.s)
		}
	}
	return all
}

// Progress is the states of orders that wait for events and whose cursor is far
// behind what was counted, to be written now and then: who reads the log next
// has less to read.
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

// fire decides that it is fired.
func (e *Engine) fire(en *entry, reason, by string, now Now) {
	a := Action{Do: Fire, Order: en.o, Reason: reason, By: by, Causes: en.causes, before: en.s}
	if g := en.o.Gate(Event); g != nil && len(en.pending) > 0 {
		n := min(len(en.pending), MaxBatch)
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
	en.told, en.dirty = "", false
	a.State = en.s
	e.out = append(e.out, a)
	if len(en.pending) > 0 {
		e.touch(en)
	}
}

// drop decides that a time of its schedule is not used.
func (e *Engine) drop(en *entry, reason string, now Now) {
	en.s.Waiting = time.Time{}
	en.s.Skips++
	en.s.Skipped, en.s.SkippedAt = reason, now.Wall.Round(0)
	if en.told == reason { // once is enough, while it goes on
		return
	}
	en.dirty = false
	e.out = append(e.out, Action{Do: Drop, Order: en.o, State: en.s, Reason: reason})
}

// keep has the state written, if something else has not.
func (e *Engine) keep(en *entry) {
	if en.dirty {
		en.dirty = false
		e.out = append(e.out, Action{Do: Keep, Order: en.o, State: en.s})
	}
}

// missed is the reason of a time that passed while nobody looked.
func missed(at time.Time) string {
	return fmt.Sprintf("%s has passed while nothing could be fired, and catch_up is off", at.Format(time.RFC3339))
}
