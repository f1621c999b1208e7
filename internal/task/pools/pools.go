// Package pools decides whether the tasks of a pool are claimed. When many of them have failed the pool is paused, and
// later the attempt at one task, the probe, decides whether it is open again. Obstacles that many tasks meet are
// counted, so that people can be asked about them. Nothing here has state: a decision about a Pool returns the Pool
// that follows.
package pools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Controller is the By of a pool that was paused because its tasks have failed.
const Controller = "controller"

// Limit says when the tasks of a pool are paused: when so many different tasks have failed within a time. A Max of 0
// means never.
type Limit struct {
	Max    int
	Within time.Duration
}

// State says whether the tasks of a pool are claimed.
type State string

// States of a pool.
const (
	Open   State = "open"   // its tasks are claimed
	Paused State = "paused" // none is claimed
	Probes State = "probes" // one task is claimed, and its attempt decides
)

// Pool has what is known of the tasks of a pool. Pools without a failure are not stored.
type Pool struct {
	_ struct{} `schema:"TaskPool" open:"true" doc:"The tasks of a pool: whether they are claimed, and the last failures."`

	Name   string    `json:"name" doc:"Name of the pool."`
	State  State     `json:"state" enum:"open,paused,probes" doc:"Whether its tasks are claimed: open; paused, none is; probes, one is, and how its attempt ends decides."`
	Since  time.Time `json:"since,omitzero" doc:"When it was paused."`
	By     string    `json:"by,omitempty" doc:"The person who has paused it, or controller."`
	Reason string    `json:"reason,omitempty" doc:"Why it is paused."`
	// Probe is the id of the task whose attempt decides; empty if none was claimed yet.
	Probe string `json:"probe,omitempty" doc:"The task whose attempt decides."`
	// ProbeAt is the time at which a paused pool probes without a person; zero if it waits for one.
	ProbeAt time.Time `json:"probe_at,omitzero" doc:"When a task is tried without a person."`
	// Probes counts failed probes in a row.
	Probes   int       `json:"probes,omitempty" minimum:"0" doc:"Number of probes that have failed in a row."`
	Failures []Failure `json:"failures,omitempty" doc:"Failed attempts within the time of the limit, the last of each task; oldest first."`

	Obstacles []Obstacle `json:"obstacles,omitempty" doc:"What has prevented attempts within a day; the one that was met last is the last."`
}

// Failure is a failed attempt at a task of a pool.
type Failure struct {
	_ struct{} `schema:"TaskPoolFailure" open:"true" doc:"A failed attempt at a task of a pool."`

	Task     string               `json:"task" doc:"The task."`
	At       time.Time            `json:"at" doc:"When the attempt has ended."`
	Outcome  outcome.Kind         `json:"outcome" doc:"Its outcome."`
	Obstacle outcome.ObstacleKind `json:"obstacle,omitempty" doc:"What has prevented it."`
}

// String returns the task and why it has failed, for people.
func (f Failure) String() string {
	why := cmp.Or(string(f.Obstacle), string(f.Outcome))
	return fmt.Sprintf("%s (%s)", f.Task, strings.ReplaceAll(why, "_", " "))
}

const (
	maxFailures = 50   // failures of a pool that are kept
	maxText     = 1000 // bytes of a reason, and of a text about an obstacle
)

// Pauses before a probe without a person.
const (
	firstProbe = 15 * time.Minute
	lastProbe  = 2 * time.Hour
)

// New returns an open pool of which nothing is known.
func New(name string) Pool { return Pool{Name: name, State: Open} }

// Empty reports whether nothing of the pool has to be kept.
func (p Pool) Empty() bool { return p.State == Open && len(p.Failures) == 0 && len(p.Obstacles) == 0 }

// ByDaemon reports whether the pool was paused because its tasks have failed, and not by a person.
func (p Pool) ByDaemon() bool { return p.By == Controller }

// Claimable reports whether a task of the pool can be claimed. probing says that its probe is claimed now.
func (p Pool) Claimable(now time.Time, probing bool) bool {
	switch p.State {
	case Open:
		return true
	case Probes:
		return !probing
	}
	return !p.ProbeAt.IsZero() && !now.Before(p.ProbeAt)
}

// Claimed returns the pool after a claim of one of its tasks. In a pool that is not open that is the probe.
func (p Pool) Claimed(task string) Pool {
	if p.State != Open {
		p.State, p.Probe = Probes, task
	}
	return p
}

// Pause returns the pool paused by a person. It is unchanged if a person has paused it before.
func (p Pool) Pause(by, reason string, at time.Time) (_ Pool, changed bool) {
	if p.State == Paused && !p.ByDaemon() {
		return p, false
	}
	p.State, p.Since, p.By, p.Reason, p.Probe, p.ProbeAt = Paused, at, by, reason, "", time.Time{}
	return p, true
}

// Resume returns the pool resumed by a person: open if a person has paused it, else it probes. A pool that is not
// paused is unchanged.
func (p Pool) Resume() (_ Pool, changed bool) {
	switch {
	case p.State != Paused:
		return p, false
	case p.ByDaemon():
		p.State, p.Probe, p.ProbeAt = Probes, "", time.Time{}
		return p, true
	}
	return p.open(), true
}

// Attempt is an attempt at a task of a pool that has ended.
type Attempt struct {
	Task    string
	EndedAt time.Time
	Outcome outcome.Report
	Failed  bool // it speaks against the pool, whatever the obstacle
	Stopped bool // it was taken from its agent, and says nothing about the work
}

// Effect says what an attempt has done to a pool.
type Effect struct {
	Changed bool // the pool has to be stored
	Paused  bool
	Opened  bool
	Asks    bool // people are asked about an obstacle from now on
}

// Ended returns the pool after the end of an attempt.
func (p Pool) Ended(a Attempt, limit Limit) (Pool, Effect) {
	after, probe := p, p.State == Probes && p.Probe == a.Task
	var e Effect
	switch {
	case probe && a.Stopped:
		after.Probe = "" // another one has to decide
	case a.Stopped:
	case a.Failed:
		e.Paused = after.fail(a, probe, limit)
	case probe:
		after, e.Opened = p.open(), true
	}
	o, met := a.obstacle()
	if met {
		e.Asks = after.meet(o)
	}
	e.Changed = met || a.Failed || after.State != p.State || after.Probe != p.Probe
	return after, e
}

// fail adds a failure, and reports whether that has paused the pool.
func (p *Pool) fail(a Attempt, probe bool, limit Limit) (paused bool) {
	f := Failure{Task: a.Task, At: a.EndedAt, Outcome: a.Outcome.Kind}
	if c := a.Outcome.Context; c != nil {
		f.Obstacle = c.Obstacle.Kind
	}
	p.Failures = append(slices.DeleteFunc(slices.Clone(p.Failures), func(before Failure) bool {
		return before.Task == a.Task || a.EndedAt.Sub(before.At) > limit.Within
	}), f)
	p.Failures = p.Failures[max(0, len(p.Failures)-maxFailures):]
	if probe {
		p.Probes++
	}
	if paused = probe || p.State == Open && limit.Max > 0 && len(p.Failures) >= limit.Max; paused {
		p.pause(a.EndedAt, probe, limit)
	}
	return paused
}

// pause pauses the pool because of its failures. If all were outside of the work, it probes without a person.
func (p *Pool) pause(at time.Time, probe bool, limit Limit) {
	p.State, p.Since, p.By, p.Probe, p.ProbeAt = Paused, at, Controller, "", time.Time{}
	if !slices.ContainsFunc(p.Failures, func(f Failure) bool { return !f.Obstacle.Outside() }) {
		p.ProbeAt = at.Add(min(lastProbe, firstProbe<<min(p.Probes, 10)))
	}
	if probe {
		p.Reason = fmt.Sprintf("the task that was tried has failed again: %s", p.Failures[len(p.Failures)-1])
		return
	}
	var all []string
	for _, f := range p.Failures {
		all = append(all, f.String())
	}
	p.Reason = plaintext.Cut(fmt.Sprintf("%d tasks have failed within %v: %s", len(all), limit.Within,
		strings.Join(all, ", ")), maxText)
}

// open returns the pool without a pause, and without what has led to it.
func (p Pool) open() Pool { return Pool{Name: p.Name, State: Open, Obstacles: p.Obstacles} }
