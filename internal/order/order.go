// Package orders decides when a command or a task that waits for its gates is
// due. An Engine is a pure state machine: it is told the time and what has
// happened, and answers what is to be done. It starts nothing and writes
// nothing, and it looks at nothing that is not due.
//
// What it promises, to whoever writes down a firing before he carries it out,
// with the State that comes with it:
//
//   - One run of an order at a time, unless its overlap is Allow.
//   - A time of a schedule, once it was dealt with, never fires again, whatever
//     the clock does. A time that passed while nobody looked is skipped, or made
//     up for once (CatchUp); one from before the order existed is neither.
//   - A cooldown counts real time since the last run began: by the clock of the
//     machine since it was booted, which nobody sets, and across a boot by the
//     calendar, but never backwards.
//   - Each event is counted once, and belongs to one run.
//   - No order fires on what it has led to, as far as the log tells; and events fire
//     it at a bounded pace.
package order

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// What an order is made of: see package spec.
type (
	Order = spec.Order
	Gate  = spec.Gate
)

// Kinds of gates, and what becomes of a firing while the order runs.
const (
	Manual    = spec.Manual
	Cooldown  = spec.Cooldown
	Cron      = spec.Cron
	Condition = spec.Condition
	Event     = spec.Event

	Skip  = spec.OverlapSkip
	Queue = spec.OverlapQueue
	Allow = spec.OverlapAllow
)

// MaxBatch is how many events one run is given at most.
const MaxBatch = 10_000

// PathOf is what the events of an order say they are about.
func PathOf(name string) string { return "orders/" + name }

// schedules tells the times of an order from those of another version of it.
func schedules(o *Order) string {
	var all []string
	for _, g := range o.Gates {
		if g.Kind == Cron {
			all = append(all, g.Schedule.String()+" "+g.Schedule.Zone().String())
		}
	}
	return strings.Join(all, "; ")
}

// wants reports whether an event counts for the order. Those that it has led to do
// not: its own runs, what these have asked for, and runs of other orders that follow
// from that. It would never end.
func wants(o *Order, e event.Event, causes []string) bool {
	g := o.Gate(Event)
	return g != nil && !slices.Contains(causes, o.Name) && Filter(g.On).Match(e) && e.Type != event.EventsCompacted &&
		e.Type != event.EventsReset
}

// Filter is the filter of the log for that of an order.
func Filter(f spec.EventFilter) event.Filter { return event.Filter{Types: f.Types, Path: f.Path} }
