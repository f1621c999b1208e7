// Package quota keeps agents from starting while the account that they use cannot serve them. An agent
// that meets a usage limit parks the pool of all agents of its account until the limit resets; then one
// of them goes first, and the others follow when it has been served. Without money, or without a valid
// login, the pool stops, and one question is put to people.
//
// Agents without a [[quota]] of their own have the account that their variables choose. Others have one or two that
// are declared: an agent goes on with the second when the first is closed.
//
// Nothing of it is a failure of an agent, and no limit of a supervisor counts it.
package quota

import (
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// State is the state of a pool.
type State string

const (
	Open    State = "open"    // agents start
	Parked  State = "parked"  // no agent starts until a time
	Probing State = "probing" // one agent goes first
	Stopped State = "stopped" // no agent starts until a person acts
)

// Pool is an account, and the agents that use it.
type Pool struct {
	Name  string `json:"name"`
	State State  `json:"state"`

	// What has closed it; empty while it is open.
	Obstacle outcome.ObstacleKind `json:"obstacle,omitempty"`
	Reason   string               `json:"reason,omitempty"`
	CLI      agentcli.CLI         `json:"cli,omitempty"`
	By       string               `json:"by,omitempty"`   // the agent that has met it
	Since    time.Time            `json:"since,omitzero"` // when it was closed

	// Until is when a parked pool lets an agent try. Reset is when the limit ends, as was reported; zero
	// if it is not known. ResetFrom says where it was reported.
	Until     time.Time       `json:"until,omitzero"`
	Reset     time.Time       `json:"reset,omitzero"`
	ResetFrom agentcli.Source `json:"reset_from,omitempty"`
	// Live says that the agent that has met it goes on, and may be served yet.
	Live bool `json:"live,omitempty"`
	// Tries counts the tries in vain since it was closed.
	Tries int  `json:"tries,omitempty"`
	told  bool // people were; see Tell

	// Canary is the agent that goes first, since CanaryAt.
	Canary   string    `json:"canary,omitempty"`
	CanaryAt time.Time `json:"canary_at,omitzero"`
}

// Delays.
const (
	// maxJitter and jitterShare bound the random delay after a reset, so that not everybody comes in the same
	// second: a minute, and a tenth of the wait.
	maxJitter   = time.Minute
	jitterShare = 10
	// firstTry and lastTry bound the growing delay between tries where no reset is known.
	firstTry, lastTry = 5 * time.Minute, time.Hour
	// proof is how long the agent that goes first has to run without a limit: command lines repeat calls for up
	// to four minutes before they say so.
	proof = 5 * time.Minute
	// recheck is when an agent asks again that waits for something without a time. It is told earlier.
	recheck = time.Hour
)

// close closes the pool after a run that ended for a reason of the account. random returns a random part of a
// duration.
func (p *Pool) close(path string, r agentcli.Record, now time.Time, random func(time.Duration) time.Duration) {
	// The first limit, or one of the agent that went first after it. Others have begun before.
	first := p.State == Open || p.State == Probing && p.Canary == path
	switch {
	case p.State == Open:
		p.Since, p.Tries = now, 0
	case first:
		p.Tries++
	case p.State == Stopped, p.State == Probing && r.Obstacle == outcome.UsageLimit:
		return
	}
	if r.Obstacle != outcome.UsageLimit {
		p.report(path, r)
		p.State, p.Until, p.Reset, p.ResetFrom = Stopped, time.Time{}, time.Time{}, ""
		return
	}
	until := now.Add(min(lastTry, firstTry<<min(p.Tries, 8)))
	if wait := r.Reset.Sub(now); wait > 0 {
		until = r.Reset.Add(random(max(1, min(maxJitter, wait/jitterShare))))
	}
	if !first && !(r.Reset.After(p.Reset) && until.After(p.Until)) {
		return // nothing new
	}
	p.report(path, r)
	p.State, p.Until = Parked, until
}

// report records who has met what.
func (p *Pool) report(path string, r agentcli.Record) {
	p.Obstacle, p.Reason, p.CLI, p.By = r.Obstacle, r.Reason, r.CLI, path
	p.Reset, p.ResetFrom = r.Reset, r.ResetFrom
	p.Canary, p.CanaryAt, p.Live = "", time.Time{}, false
}

// admits reports whether an agent may start now. Of those that ask after the time of a parked pool, the first goes
// first.
func (p *Pool) admits(path string, now time.Time) bool {
	switch p.State {
	case Parked:
		return !now.Before(p.Until)
	case Probing:
		return p.Canary == path || p.isProven(now)
	}
	return p.State == Open
}

// asksAgain returns when an agent that may not start has to ask again. It is told earlier, if that makes sense.
func (p *Pool) asksAgain(now time.Time) time.Time {
	if p.State == Parked {
		return p.Until
	}
	return now.Add(recheck)
}

// admit records that an agent starts that may.
func (p *Pool) admit(path string, now time.Time) {
	if p.proven(now); p.State == Parked {
		p.State, p.Canary, p.CanaryAt = Probing, path, now
	}
}

// served records that an agent was served: its run has completed, or ended for a reason of its own. It reports
// whether the pool opens.
func (p *Pool) served(path string) bool {
	if p.State != Probing || p.Canary != path {
		return false
	}
	p.open()
	return true
}

// completed records that a run has completed. If it had reported while it ran that it was not served, that is over, and
// the pool opens.
func (p *Pool) completed(path string) {
	if p.served(path); p.Live && p.By == path && p.State != Open {
		p.open()
	}
}

// proven reports whether the agent that goes first has run for long enough, and opens the pool if so.
func (p *Pool) proven(now time.Time) bool {
	if !p.isProven(now) {
		return false
	}
	p.open()
	return true
}

func (p *Pool) isProven(now time.Time) bool {
	return p.State == Probing && !p.CanaryAt.IsZero() && now.Sub(p.CanaryAt) >= proof
}

// gone records that the agent that goes first was stopped before it was served. Another may go.
func (p *Pool) gone(path string, now time.Time) bool {
	if p.State != Probing || p.Canary != path {
		return false
	}
	p.State, p.Until, p.Canary, p.CanaryAt = Parked, now, "", time.Time{}
	return true
}

// resume lets one agent try now, as a person has asked.
func (p *Pool) resume(now time.Time) bool {
	if p.State == Open || p.State == Probing {
		return false
	}
	p.State, p.Until = Parked, now
	return true
}

func (p *Pool) open() { *p = Pool{Name: p.Name, State: Open} }
