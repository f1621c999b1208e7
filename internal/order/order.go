// Package order decides when a command or a task that waits for its gates is due. An Engine
// is a pure state machine: its caller passes it the time and events, and it returns actions.
// It starts nothing, writes nothing, and examines only orders that are due.
//
// It guarantees the following to a caller that stores the State of each firing before it
// carries it out:
//
//   - An order has one run at a time, unless its overlap is Allow.
//   - A time of a schedule that was handled never fires again, however the clock is set. A
//     time that passed while no engine ran is skipped, or made up for once (CatchUp). A
//     time from before the order existed is ignored.
//   - A cooldown counts the time since the last run began: by the clock of the machine since
//     boot, which cannot be set, and across a boot by the calendar, but never backwards.
//   - Each event counts once, and belongs to one run.
//   - No order fires on its own effects, if the log shows them as such; and events fire it at
//     a bounded pace.
package order

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// The parts of an order, see package spec.
type (
	Order = spec.Order
	Gate  = spec.Gate
)

// Kinds of gates, and values of Overlap.
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

// maxBatch bounds the number of events of one run.
const maxBatch = 10_000

// PathOf returns the path in the events of an order.
func PathOf(name string) string { return "orders/" + name }

// schedules returns a text that changes with the schedules of an order.
func schedules(o *Order) string {
	var all []string
	for _, g := range o.Gates {
		if g.Kind == Cron {
			all = append(all, g.Schedule.String()+" "+g.Schedule.Zone().String())
		}
	}
	return strings.Join(all, "; ")
}

// wants reports whether an event counts for the order. Events that it has caused do not count, since
// that would never end: those of its own runs, of actions that these have requested, and of runs of
// other orders that follow.
func wants(o *Order, e event.Event, causes []string) bool {
	g := o.Gate(Event)
	return g != nil && !slices.Contains(causes, o.Name) && Filter(g.On).Match(e) && e.Type != event.EventsCompacted &&
		e.Type != event.EventsReset
}

// Filter returns the filter of the log for that of an order.
func Filter(f spec.EventFilter) event.Filter { return event.Filter{Types: f.Types, Path: f.Path} }
