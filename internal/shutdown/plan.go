// Package shutdown stops the agents of a part of the tree in order and in bounded time. Plan decides
// which agents are asked to stop or killed, and when, without a clock. Sequence and Run carry that
// out, while the supervisors stop their children as usual: an agent whose supervisor asks it to stop
// waits for its turn.
//
// An agent is asked to stop when all agents that depend on it have ended, so most are asked at once.
// From then on it has its own grace period. An agent that exceeds it is killed, but not before the
// agents that depend on it. With W for the longest grace period, every agent has been asked after W,
// and has been killed after 2W plus twice KillTime.
package shutdown

import (
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// KillTime is the time that a killed agent has to end. An agent that takes longer is abandoned.
const KillTime = supervisor.KillGrace

// Plan is the order in which agents are stopped. It is not safe for concurrent use.
type Plan struct {
	order   *spec.StopOrder
	begun   time.Time
	longest time.Duration // the longest grace period
	agents  map[string]*agent
	paths   []string // in the order of Step
	left    int      // number of agents that are not over
}

// agent is an agent that is being stopped.
type agent struct {
	allowed time.Duration // its grace period
	known   bool          // to the order
	free    bool          // nothing that depends on it lives
	state   state
	since   time.Time // the beginning of the state
}

type state uint8

const (
	living state = iota
	asked
	killed
	over // ended or abandoned
)

// New plans to stop agents, each with its grace period. An agent with a grace period of zero is killed
// without being asked. order may be nil.
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
	p.left++
}

// Join adds an agent that was started during the shutdown. It has no place in the order and is stopped
// at once.
func (p *Plan) Join(path string, allowed time.Duration) {
	if a := p.agents[path]; a != nil && a.state != over {
		return
	}
	if p.agents[path] != nil {
		p.paths = slices.DeleteFunc(p.paths, func(s string) bool { return s == path })
	}
	p.add(path, allowed, false)
}

// Ended records that an agent has ended. It reports whether the agent had to be killed.
func (p *Plan) Ended(path string) (forced bool) {
	a := p.agents[path]
	if a == nil || a.state == over {
		return false
	}
	forced = a.state == killed && a.allowed > 0
	a.state = over
	p.left--
	p.order.Ended(path)
	return forced
}

// HasNews reports whether what has ended since the last Step lets others be asked, or ends the plan.
// Otherwise there is nothing to do before Step.Next.
func (p *Plan) HasNews() bool { return p.order.HasFree() || p.Over() }

// Left reports whether an agent has ended, was abandoned, or is unknown.
func (p *Plan) Left(path string) bool { return p.agents[path] == nil || p.agents[path].state == over }

// Step is a set of actions that are due. Each agent is asked, killed and abandoned at most once.
type Step struct {
	Ask  []string // agents to ask to stop
	Kill []string // agents that have exceeded their grace period
	Left []string // agents that are abandoned, since they did not end when killed
	// Late is set if an agent is asked before its turn: from now on none waits for it.
	Late bool
	// Next is when the passing of time makes another action due; zero: never.
	Next time.Time
}

// Step returns the actions that are due now.
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
				if a.allowed > 0 { // else the next pass of the loop kills it
					s.Ask = append(s.Ask, path)
				}
			case killed:
				s.Kill = append(s.Kill, path)
			case over:
				s.Left = append(s.Left, path)
				p.left--
				p.order.Ended(path)
			}
		}
	}
	return s
}

// due returns when an agent enters its next state if nothing else happens.
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

// Over reports whether all agents have ended or are abandoned.
func (p *Plan) Over() bool { return p.left == 0 }

// Bound returns the longest duration of the whole plan.
func (p *Plan) Bound() time.Duration { return 2*p.longest + 2*KillTime }
