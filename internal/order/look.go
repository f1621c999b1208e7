package order

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// View is what is known of an order at a moment.
type View struct {
	Order   *Order
	State   State
	Enabled bool
	Running int
	Pending int // events that wait
	// Due: it would be fired now, or is only not because Why.
	Due bool
	Why string
	// Next is when its gates may open next, as far as the clock decides that; zero if it does not.
	Next  time.Time
	Gates []GateView
}

// GateView is what is known of one gate.
type GateView struct {
	Gate   Gate
	Open   bool
	Reason string
	Next   time.Time
}

// Look tells of an order. check is what its check has just said; nil if nobody asked.
func (e *Engine) Look(name string, now Now, check *bool) (View, error) {
	en := e.entries[name]
	if en == nil {
		return View{}, ErrUnknown
	}
	copied := *en
	copied.check.ok = check != nil && *check
	v := View{Order: en.o, State: en.s, Enabled: en.enabled(), Running: en.running, Pending: len(en.pending)}
	if v.State.Waiting.IsZero() && v.Enabled && !en.next.IsZero() && !en.next.After(now.Wall) {
		copied.s.Waiting = en.next // about to be seen
	}
	open := 0
	for _, g := range en.o.Gates {
		gv := GateView{Gate: g, Next: en.nextOf(g, now)}
		gv.Open, gv.Reason = copied.gate(g, now)
		if g.Kind == Condition && check == nil {
			gv.Reason = "its condition was not tried"
		}
		if gv.Open {
			open++
		}
		if !gv.Next.IsZero() && (v.Next.IsZero() || en.o.All && gv.Next.After(v.Next) || !en.o.All &&
			gv.Next.Before(v.Next)) {
			v.Next = gv.Next
		}
		v.Gates = append(v.Gates, gv)
	}
	v.Due = open > 0 && (!en.o.All || open == len(en.o.Gates)) || en.s.Asked
	v.Why = v.why(e.heldFor(en.o))
	if held := v.held(e.heldFor(en.o)); v.Due && held != "" {
		v.Due, v.Why = false, held+" ("+v.Why+")"
	}
	return v, nil
}

// held is what keeps an order whose gates are open.
func (v View) held(reason string) string {
	switch {
	case !v.Enabled && v.State.ByHand == DisabledByHand:
		return "it is disabled by hand"
	case !v.Enabled:
		return v.Order.Why
	case reason != "":
		return reason
	case v.Running > 0 && v.Order.Overlap != Allow:
		return "it is running"
	}
	return ""
}

// why is why it is due, or not.
func (v View) why(reason string) string {
	if held := v.held(reason); held != "" && !v.Due {
		return held
	}
	var all []string
	for _, g := range v.Gates {
		if g.Open == v.Due || v.Order.All {
			all = append(all, g.Reason)
		}
	}
	if v.State.Asked {
		all = append(all, "somebody has asked for it")
	}
	if len(all) == 0 {
		return "it has no gate: only by hand"
	}
	return strings.Join(all, "; ")
}

// nextOf is when a gate opens next by the clock.
func (en *entry) nextOf(g Gate, now Now) time.Time {
	switch g.Kind {
	case Cron:
		return g.Schedule.Next(now.Wall)
	case Cooldown:
		if en.s.Fired.IsZero() {
			return now.Wall
		}
		return now.Wall.Add(max(0, g.Interval-now.Since(en.s.Fired)))
	}
	return time.Time{}
}

// Next are the next times at which an order fires, as far as the clock alone
// decides that: those of its schedules, or those of its cooldown if no run
// takes longer. There are fewer than n where the calendar ends, with the year
// 9999. Its error says why there are none.
func (e *Engine) Next(name string, now Now, n int) (all []time.Time, err error) {
	all, err = e.next(name, now, n)
	return slices.DeleteFunc(all, func(at time.Time) bool { return at.Year() > lastYear }), err
}

// lastYear is the last one that can be written in all the ways that times are.
const lastYear = 9999

func (e *Engine) next(name string, now Now, n int) (all []time.Time, err error) {
	en := e.entries[name]
	if en == nil {
		return nil, ErrUnknown
	}
	cooldown, schedules := en.o.Gate(Cooldown), !nextTime(en.o, now.Wall).IsZero()
	others := en.o.Gate(Condition) != nil || en.o.Gate(Event) != nil
	switch {
	case en.o.All && others:
		return nil, fmt.Errorf("it waits for more than the clock: %s", gatesOf(en.o))
	case cooldown == nil && !schedules:
		return nil, fmt.Errorf("it does not wait for the clock: %s", gatesOf(en.o))
	case cooldown != nil && schedules && !en.o.All:
		return en.either(now, n, cooldown.Interval), nil
	case cooldown != nil && !schedules:
		for at := en.nextOf(*cooldown, now); len(all) < n; at = at.Add(cooldown.Interval) {
			all = append(all, at)
		}
		return all, nil
	}
	free := now.Wall
	if cooldown != nil {
		free = en.nextOf(*cooldown, now)
	}
	for at := nextTime(en.o, now.Wall); len(all) < n; at = nextTime(en.o, at) {
		fires := at
		if fires.Before(free) {
			fires = free
		}
		at = fires // those up to it wait together
		all = append(all, fires)
		if cooldown != nil {
			free = fires.Add(cooldown.Interval)
		}
	}
	return all, nil
}

// either is Next where the schedules and the cooldown each fire.
func (en *entry) either(now Now, n int, interval time.Duration) (all []time.Time) {
	cool, at := en.nextOf(*en.o.Gate(Cooldown), now), nextTime(en.o, now.Wall)
	for len(all) < n {
		fires := at
		if cool.Before(at) {
			fires = cool
		} else {
			at = nextTime(en.o, at)
		}
		all = append(all, fires)
		cool = fires.Add(interval)
	}
	return all
}

func gatesOf(o *Order) string {
	if len(o.Gates) == 0 {
		return "manual"
	}
	var all []string
	for _, g := range o.Gates {
		all = append(all, g.String())
	}
	if o.All {
		return strings.Join(all, " and ")
	}
	return strings.Join(all, " or ")
}

// Names are those of all orders, in no order.
func (e *Engine) Names() []string {
	names := make([]string, 0, len(e.entries))
	for name := range e.entries {
		names = append(names, name)
	}
	return names
}
