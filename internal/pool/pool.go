// Package pool decides how many instances of an agent a pool runs, and adds and retires them.
//
// The instances of a pool are the first so many of a row of names. How many are wanted is what a
// check command prints, within bounds. Surplus instances are drained, not killed: an instance
// that is drained is stopped when it has finished or its time is over, and goes on
// if it is wanted again before that.
//
// Plan decides: it is pure, and knows neither clock nor process. A Controller runs the control
// loop of one pool, the Manager holds the pools of a project, and the Runner runs the checks.
package pool

import (
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Demand holds what is known of how many instances are wanted. Its zero value
// knows nothing.
type Demand struct {
	// Asked is the last good answer of the check, as it was given; valid if Known.
	Asked int
	Known bool
	// Problem is why the last check has given no answer; nil if it has.
	Problem error
}

// Answered returns the demand after a check. A check that failed leaves the last good answer
// in force: a queue that cannot be read is not an empty queue, and instances that work must not
// be stopped for that.
func (d Demand) Answered(n int, err error) Demand {
	if err != nil {
		d.Problem = err
		return d
	}
	return Demand{Asked: n, Known: true}
}

// Size returns how many instances there should be: what was asked for, within the bounds, or the
// minimum before the first answer.
func (d Demand) Size(p *spec.Pool) int {
	if !d.Known {
		return p.Clamp(p.Min)
	}
	return p.Clamp(d.Asked)
}

// Member describes an instance that the pool has in the tree.
type Member struct {
	Name string
	// Lives: something of it runs, or may run. What waits for its restart, is
	// held by a limit or was stopped by hand does not, and is not asked to finish.
	Lives bool
	// Held: a person has asked it to finish. The pool leaves it alone while it lives.
	Held bool
	// Drain is not nil if the pool has asked it to finish.
	Drain *Drain
	// Leaving: it is being removed, which is not undone.
	Leaving bool
	// Again: its restart policy has let it end for good, and it was asked for since.
	Again bool
}

// Drain describes an instance that was asked to finish.
type Drain struct {
	Finished bool      // it says that it has
	Until    time.Time // then it is stopped in any case
}

// Verb says what a Step does.
type Verb uint8

const (
	Add         Verb = iota // start an instance that does not exist
	BeginDrain              // ask it to finish
	CancelDrain             // it need no longer finish
	Remove                  // stop it, if it lives, and remove it
)

// Step is one action on an instance, with its reason.
type Step struct {
	Verb Verb
	Name string
	Why  string
}

// Reasons of steps.
const (
	whyWanted   = "wanted"
	whyAgain    = "wanted again"
	whySurplus  = "no longer wanted"
	whyFinished = "has finished"
	whyEnded    = "has ended"
	whyTooLong  = "did not finish in time"
)

// Plan returns what is to be done so that the members become the wanted instances,
// and when to plan again if nothing happens before; zero for never. wanted is in
// the order in which instances are started; members are in the same order, with
// those behind them that could not be wanted at all. The surplus goes from
// the end. Nothing is planned for what is as it should be, or on its way there: of a
// plan that is carried out, only the return of those who were removed is left.
func Plan(now time.Time, wanted []string, members []Member) (steps []Step, next time.Time) {
	byName := make(map[string]Member, len(members))
	for _, m := range members {
		byName[m.Name] = m
	}
	keep := make(map[string]bool, len(wanted))
	for _, name := range wanted {
		keep[name] = true
		switch m, exists := byName[name]; {
		case !exists:
			steps = append(steps, Step{Add, name, whyWanted})
		case m.Again && !m.Lives && !m.Leaving:
			steps = append(steps, Step{Remove, name, whyEnded}) // and starts again when it is gone
		case m.Drain == nil || m.Leaving:
			// As it should be, or in its way: it is added when it is gone.
		case m.Lives && !m.Drain.Finished && now.Before(m.Drain.Until):
			steps = append(steps, Step{CancelDrain, name, whyAgain})
		default:
			// It has finished what it was for, and is added again when it is gone.
			steps = append(steps, Step{Remove, name, m.over(now)})
		}
	}
	for _, m := range slices.Backward(members) {
		switch {
		case keep[m.Name] || m.Leaving || m.Held && m.Lives:
		case !m.Lives:
			steps = append(steps, Step{Remove, m.Name, whyEnded})
		case m.Drain == nil:
			steps = append(steps, Step{BeginDrain, m.Name, whySurplus})
		default:
			if why := m.over(now); why != "" {
				steps = append(steps, Step{Remove, m.Name, why})
			} else if next.IsZero() || m.Drain.Until.Before(next) {
				next = m.Drain.Until
			}
		}
	}
	return steps, next
}

// over says why the drain of a member is over; "" if it is not.
func (m Member) over(now time.Time) string {
	switch {
	case m.Drain.Finished:
		return whyFinished
	case !m.Lives:
		return whyEnded
	case !now.Before(m.Drain.Until):
		return whyTooLong
	}
	return ""
}
