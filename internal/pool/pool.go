// Package pool decides how many instances of an agent a pool runs, and adds and retires them.
//
// The instances of a pool have the first names of a fixed sequence. A check command prints the wanted
// number, which is limited by bounds. Surplus instances are drained: such an instance is stopped when
// it has finished or its drain timeout is over, and keeps running if it is wanted again before that.
//
// Plan decides: it is pure, and knows neither clock nor process. A Controller runs the control
// loop of one pool, the Manager holds the pools of a project, and the Runner runs the checks.
package pool

import (
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Demand is the result of the checks of a pool so far.
type Demand struct {
	// Asked is the last good answer of the check, before it is limited; valid if Known.
	Asked int
	Known bool
	// Problem is the error of the last check, if it failed.
	Problem error
}

// Answered returns the demand after a check. After a failed check the last good answer stays in
// force: a queue that cannot be read is not an empty queue, so no working instance may be stopped.
func (d Demand) Answered(n int, err error) Demand {
	if err != nil {
		d.Problem = err
		return d
	}
	return Demand{Asked: n, Known: true}
}

// Size returns the wanted number of instances: the last answer within the bounds, or the minimum
// before the first answer.
func (d Demand) Size(p *spec.Pool) int {
	if !d.Known {
		return p.Clamp(p.Min)
	}
	return p.Clamp(d.Asked)
}

// Member describes an instance that the pool has in the tree.
type Member struct {
	Name string
	// Lives is set if a process of the instance runs or may run. An instance that waits for its
	// restart, is held by a limit or was stopped by hand does not live, and is not drained.
	Lives bool
	// Held is set if a person drains the instance. The pool ignores it while it lives.
	Held bool
	// Drain is not nil if the pool drains the instance.
	Drain *Drain
	// Leaving is set while the instance is being removed, which cannot be undone.
	Leaving bool
	// Again is set if the instance has ended without a restart, and the check has asked for it since.
	Again bool
}

// Drain describes the drain of an instance.
type Drain struct {
	Finished bool      // the instance has acknowledged that it has finished
	Until    time.Time // the deadline, at which it is stopped in any case
}

// Verb is the kind of a Step.
type Verb uint8

const (
	Add         Verb = iota // start an instance that does not exist
	BeginDrain              // ask an instance to finish
	CancelDrain             // let a drained instance continue
	Remove                  // stop an instance, if it lives, and remove it
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

// Plan returns the steps that turn the members into the wanted instances, and when to plan again if
// nothing happens before; zero means never.
//
// wanted is in the order in which instances are started. members are in the same order, followed by
// those that can no longer be wanted. Surplus members are drained from the end. An instance that is
// removed is added again by a later plan, after it is gone.
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
			steps = append(steps, Step{Remove, name, whyEnded}) // and is added again when it is gone
		case m.Drain == nil || m.Leaving:
			// It is as it should be, or is added again when it is gone.
		case m.Lives && !m.Drain.Finished && now.Before(m.Drain.Until):
			steps = append(steps, Step{CancelDrain, name, whyAgain})
		default:
			// It has finished, and is added again when it is gone.
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

// over returns why the drain of a member is over, or "" if it is not.
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
