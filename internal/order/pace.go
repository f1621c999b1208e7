package order

import (
	"fmt"
	"time"
)

// Events fire an order freely in a burst, and then at a pace. Its own effects may fire it
// endlessly if the log does not show them as its effects, for example those of an agent or
// another machine. No event is lost: those that wait belong to the next run.
const (
	eventBurst = 60
	eventPace  = time.Minute
)

// lead returns how far the runs that events have fired are ahead of the pace.
func (s *State) lead(now Now) time.Duration { return max(0, s.Lead-now.Since(s.LeadAt)) }

// paced returns how long events must not fire an order.
func (en *entry) paced(now Now) time.Duration {
	return max(0, en.s.lead(now)-(eventBurst-1)*eventPace)
}

// advance counts a run that events have fired.
func (s *State) advance(now Now) {
	lead := s.lead(now)
	if lead <= eventBurst*eventPace/2 {
		s.PacedAt = time.Time{}
	}
	s.Lead, s.LeadAt = lead+eventPace, now.Stamp()
}

// slowDown reports once that an order is held to its pace.
func (e *Engine) slowDown(en *entry, now Now) {
	if !en.s.PacedAt.IsZero() || en.o.Gate(Event) == nil || len(en.pending) == 0 || en.paced(now) == 0 {
		return
	}
	en.s.PacedAt = now.Wall.Round(0)
	en.dirty = false
	e.out = append(e.out, Action{Do: Slow, Order: en.o, State: en.s, Reason: slowReason})
}

var slowReason = fmt.Sprintf("events have fired it %d times and more, faster than once in %v; from now on they "+
	"fire it once in %v at most", eventBurst, eventPace, eventPace)
