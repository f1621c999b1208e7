// Package shutdown stops the agents of a part of the tree in order and in
// bounded time. Plan decides who is asked and who is killed when, without a
// clock; Sequence and Run carry that out, while the supervisors stop their
// children as ever: an agent whose supervisor asks it to stop waits for its turn.
//
// All agents are asked at once, except those that others depend on, which are
// asked when those have ended. Each has a time of its own from then on. One that
// lives longer is killed, again not before those that depend on it. With W for
// the longest of these times, every agent has been asked after W, and been killed
// after 2W and twice KillTime.
package shutdown

import (
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// KillTime is how long an agent that was killed may take to end. One that takes
// longer is left behind: no more can be done.
const KillTime = supervisor.KillGrace

// Plan is the order in which agents are stopped. It is not safe for concurrent use.
type Plan struct {
	order   *spec.StopOrder
	begun   time.Time
	longest time.Duration // of all times
	agents  map[string]*agent
	paths   []string // in the order of Step
}

// agent is one of those that are stopped.
type agent struct {
	allowed time.Duration
	known   bool // to the order
	free    bool // nothing that depends on it lives
	state   state
	since   time.Time // of the state
}

type state uint8

const (
	living state = iota
	asked
	killed
	over // ended, or left behind
)

// New plans to stop agents, each with the time it may take to end once
// it was asked. Zero: it is killed without being asked. Order may be nil.
func New(order *spec.StartOrder, allowed map[string]time.Duration, now time.Time) *Plan {
	p := &Plan{begun: now, agents: make(map[string]*agent, len(allowed))}
	p.order = order.StopOrder(func(path string) bool { _, ok := allowed[path]; return ok })
	for path, d := range allowed {
		p.add(path, d, order.Has(path))
	}
	slices.Sort(p.paths)
	return p
}

func (p *Plan) add(path string, allowed time.Duration, known bool) {
	p.agents[path] = &agent{allowed: allowed, known: known, free: !known}
	p.paths = append(p.paths, path)
	p.longest = max(p.longest, allowed)
}

// Join adds an agent that has been started after all. It is in no order: it
// goes at once.
func (p *Plan) Join(path string, allowed time.Duration) {
	if a := p.agents[path]; a != nil && a.state != over {
		return
	}
	if p.agents[path] != nil {
		p.paths = slices.DeleteFunc(p.paths, func(s string) bool { return s == path })
	}
	p.add(path, allowed, false)
}

// Ended notes that an agent has ended. It reports whether that came late: it
// had to be killed for it.
func (p *Plan) Ended(path string) (forced bool) {
	a := p.agents[path]
	if a == nil || a.state == over {
		return false
	}
	forced = a.state == killed && a.allowed > 0
	a.state = over
	p.order.Ended(path)
	return forced
}

// Left reports whether an agent is no longer waited for: it has ended, or does not end.
func (p *Plan) Left(path string) bool { return p.agents[path] == nil || p.agents[path].state == over }

// Step is what to do at a moment. Each agent is asked once at most, killed once
// at most and left once at most.
type Step struct {
	Ask  []string // to end
	Kill []string // who did not in the time that was allowed
	Left []string // they do not end, and are no longer waited for
	// Late: from now on no agent waits for its turn.
	Late bool
	// Next is when time alone changes something; zero: never.
	Next time.Time
}

// Step returns what to do now.
func (p *Plan) Step(now time.Time) (s Step) {
	for changed := true; changed; {
		changed = false
		for _, path := range p.order.Free() {
			if a := p.agents[path]; a != nil {
				a.free = true
			}
		}
		s.Next = time.Time{}
		for _, path := range p.paths {
			a := p.agents[path]
			due, next := p.due(a)
			if a.state == over || due.IsZero() {
				continue
			}
			if now.Before(due) {
				if s.Next.IsZero() || due.Before(s.Next) {
					s.Next = due
				}
				continue
			}
			changed = true
			a.state, a.since = next, now
			switch next {
			case asked:
				s.Late = s.Late || !a.free
				if a.allowed > 0 { // else it is killed in the next turn
					s.Ask = append(s.Ask, path)
				}
			case killed:
				s.Kill = append(s.Kill, path)
			case over:
				s.Left = append(s.Left, path)
				p.order.Ended(path)
			}
		}
	}
	return s
}

// due is when an agent comes into its next state, if nothing else happens.
func (p *Plan) due(a *agent) (at time.Time, next state) {
	switch a.state {
	case living:
		if a.free {
			return p.begun, asked
		}
		return p.begun.Add(p.longest), asked
	case asked:
		end := a.since.Add(a.allowed)
		if last := p.begun.Add(2*p.longest + KillTime); !a.free && last.After(end) {
			end = last
		}
		return end, killed
	case killed:
		return a.since.Add(KillTime), over
	}
	return time.Time{}, over
}

// Over reports whether no agent is waited for.
func (p *Plan) Over() bool {
	for _, a := range p.agents {
		if a.state != over {
			return false
		}
	}
	return true
}

// Bound is how long all of it takes at most.
func (p *Plan) Bound() time.Duration { return 2*p.longest + 2*KillTime }
