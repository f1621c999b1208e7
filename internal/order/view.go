package order

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// View describes an order at one moment.
type View struct {
	Order   *Order
	State   State
	Enabled bool
	Running int
	Pending int // events that wait
	// Due is set if the order would fire now. Why is the reason, or what prevents it.
	Due bool
	Why string
	// Next is when its gates may open next; zero if the clock does not decide that.
	Next  time.Time
	Gates []GateView
}

// GateView describes a gate.
type GateView struct {
	Gate   Gate
	Open   bool
	Reason string
	Next   time.Time
}

// Look describes an order. check is the result of its check if that has just run, or nil.
func (e *Engine) Look(name string, now Now, check *bool) (View, error) {
	en := e.entries[name]
	if en == nil {
		return View{}, ErrUnknown
	}
	copied := *en
	copied.check.ok = check != nil && *check
	v := View{Order: en.o, State: en.s, Enabled: en.enabled(), Running: en.running, Pending: len(en.pending)}
	if v.State.Waiting.IsZero() && v.Enabled && !en.next.IsZero() && !en.next.After(now.Wall) {
		copied.s.Waiting = en.next // Step has not handled it yet
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

// held returns what prevents an order whose gates are open from firing.
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

// why returns why the order is due, or not.
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
		all = append(all, "a run was requested")
	}
	if len(all) == 0 {
		return "it has no gate: only by hand"
	}
	return strings.Join(all, "; ")
}

// nextOf returns when the clock opens a gate next.
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

// Next returns the next n times at which an order fires, if the clock alone decides that:
// those of its schedules, or those of its cooldown if no run takes longer. There are fewer
// if the calendar ends before, with the year 9999. The error says why there are none.
func (e *Engine) Next(name string, now Now, n int) (all []time.Time, err error) {
	all, err = e.next(name, now, n)
	return slices.DeleteFunc(all, func(at time.Time) bool { return at.Year() > lastYear }), err
}

// lastYear is the last year that all formats of times can represent.
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
		at = fires // earlier times are merged into this one
		all = append(all, fires)
		if cooldown != nil {
			free = fires.Add(cooldown.Interval)
		}
	}
	return all, nil
}

// either returns the next times if both the schedules and the cooldown fire the order.
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

// Counts summarizes the orders of a project.
type Counts struct {
	_ struct{} `schema:"OrderCounts" doc:"A summary of the orders."`

	Total    int        `json:"total" minimum:"0" doc:"The number of orders."`
	Disabled int        `json:"disabled" minimum:"0" doc:"The number of disabled orders."`
	Running  int        `json:"running" minimum:"0" doc:"The number of runs in progress."`
	Failing  int        `json:"failing" minimum:"0" doc:"The number of orders whose last run did not complete."`
	NextAt   *time.Time `json:"next_at,omitempty" doc:"When the clock may fire an order next."`
	Next     string     `json:"next,omitempty" doc:"That order."`
}
