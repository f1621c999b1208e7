package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// PoolLimit says when the tasks of a pool are paused: when so many different tasks have failed within
// a time. A Max of 0 means never.
type PoolLimit struct {
	Max    int
	Within time.Duration
}

// PoolState says whether the tasks of a pool are claimed.
type PoolState string

// States of a pool.
const (
	PoolOpen   PoolState = "open"   // its tasks are claimed
	PoolPaused PoolState = "paused" // none is claimed
	PoolProbes PoolState = "probes" // one task is claimed, and its attempt decides
)

// Pool has what is known of the tasks of a pool. Pools without a failure are not stored.
type Pool struct {
	_ struct{} `schema:"TaskPool" open:"true" doc:"The tasks of a pool: whether they are claimed, and the last failures."`

	Name   string    `json:"name" doc:"Name of the pool."`
	State  PoolState `json:"state" enum:"open,paused,probes" doc:"Whether its tasks are claimed: open; paused, none is; probes, one is, and how its attempt ends decides."`
	Since  time.Time `json:"since,omitzero" doc:"When it was paused."`
	By     string    `json:"by,omitempty" doc:"The person who has paused it, or controller."`
	Reason string    `json:"reason,omitempty" doc:"Why it is paused."`
	// Probe is the id of the task whose attempt decides; empty if none was claimed yet.
	Probe string `json:"probe,omitempty" doc:"The task whose attempt decides."`
	// ProbeAt is the time at which a paused pool probes without a person; zero if it waits for one.
	ProbeAt time.Time `json:"probe_at,omitzero" doc:"When a task is tried without a person."`
	// Probes counts failed probes in a row.
	Probes   int           `json:"probes,omitempty" minimum:"0" doc:"Number of probes that have failed in a row."`
	Failures []PoolFailure `json:"failures,omitempty" doc:"Failed attempts within the time of the limit, the last of each task; oldest first."`

	Obstacles []PoolObstacle `json:"obstacles,omitempty" doc:"What has prevented attempts within a day; the one that was met last is the last."`
}

// PoolFailure is a failed attempt at a task of a pool.
type PoolFailure struct {
	_ struct{} `schema:"TaskPoolFailure" open:"true" doc:"A failed attempt at a task of a pool."`

	Task     string               `json:"task" doc:"The task."`
	At       time.Time            `json:"at" doc:"When the attempt has ended."`
	Outcome  outcome.Kind         `json:"outcome" doc:"Its outcome."`
	Obstacle outcome.ObstacleKind `json:"obstacle,omitempty" doc:"What has prevented it."`
}

// maxFailures bounds the failures of a pool that are kept.
const maxFailures = 50

// Pauses before a probe without a person.
const (
	firstProbe = 15 * time.Minute
	lastProbe  = 2 * time.Hour
)

// claimable reports whether a task of a pool can be claimed now.
func (s *State) claimable(p *Pool) bool {
	switch {
	case p == nil || p.State == PoolOpen:
		return true
	case p.State == PoolProbes:
		probe := s.Record(p.Probe)
		return probe == nil || probe.Claim == nil || probe.Pool != p.Name
	}
	return !p.ProbeAt.IsZero() && !s.index.now.Before(p.ProbeAt)
}

// failed reports whether an attempt speaks against the pool: it has failed, or was escalated, whatever
// the obstacle. One that was deferred or blocked is no failure.
func failed(kind outcome.Kind) bool { return routeOf(kind).counts || kind == outcome.Escalated }

// attempted returns the pool after an attempt at one of its tasks, and whether that has paused or opened it. Attempts
// that say nothing, since they were taken from their agents, are not among them.
func (p Pool) attempted(id string, a Attempt, limit PoolLimit, stopped bool) (_ Pool, paused, opened bool) {
	probe := p.State == PoolProbes && p.Probe == id
	switch {
	case probe && stopped:
		p.Probe = "" // another one has to decide
	case stopped:
	case !failed(a.Outcome.Kind):
		if opened = probe; opened {
			p = p.open()
		}
	default:
		p.Failures = append(slices.DeleteFunc(slices.Clone(p.Failures), func(f PoolFailure) bool {
			return f.Task == id || a.EndedAt.Sub(f.At) > limit.Within
		}), PoolFailure{Task: id, At: a.EndedAt, Outcome: a.Outcome.Kind, Obstacle: obstacleOf(a.Outcome)})
		p.Failures = p.Failures[max(0, len(p.Failures)-maxFailures):]
		if probe {
			p.Probes++
		}
		if paused = probe || p.State == PoolOpen && limit.Max > 0 && len(p.Failures) >= limit.Max; paused {
			p.pause(a.EndedAt, probe, limit)
		}
	}
	return p, paused, opened
}

func obstacleOf(r outcome.Report) outcome.ObstacleKind {
	if r.Context == nil {
		return ""
	}
	return r.Context.Obstacle.Kind
}

// pause pauses the pool because of its failures.
func (p *Pool) pause(at time.Time, probe bool, limit PoolLimit) {
	p.State, p.Since, p.By, p.Probe, p.ProbeAt = PoolPaused, at, controller, "", time.Time{}
	outside := !slices.ContainsFunc(p.Failures, func(f PoolFailure) bool { return !f.Obstacle.Outside() })
	if outside {
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
	p.Reason = cut(fmt.Sprintf("%d tasks have failed within %v: %s", len(all), limit.Within, strings.Join(all, ", ")))
}

func (f PoolFailure) String() string {
	why := cmp.Or(string(f.Obstacle), string(f.Outcome))
	return fmt.Sprintf("%s (%s)", f.Task, strings.ReplaceAll(why, "_", " "))
}

// ByDaemon reports whether the pool was paused because its tasks have failed, and not by a person.
func (p Pool) ByDaemon() bool { return p.By == controller }

// empty reports whether nothing of the pool has to be kept.
func (p Pool) empty() bool {
	return p.State == PoolOpen && len(p.Failures) == 0 && len(p.Obstacles) == 0
}

// open returns the pool without a pause, and without what has led to it.
func (p Pool) open() Pool { return Pool{Name: p.Name, State: PoolOpen, Obstacles: p.Obstacles} }

// Pools returns what is known of pools, sorted by name. Those that are missing are open.
func (s *State) Pools() (all []Pool) {
	for _, p := range s.pools {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// poolChange is a change of a pool by a step.
type poolChange struct {
	name   string
	before *Pool
}

// setPool replaces a pool.
func (s *Step) setPool(p Pool) {
	s.pools = append(s.pools, poolChange{p.Name, s.state.pools[p.Name]})
	var value []byte
	if s.state.setPool(p.Name, &p); !p.empty() {
		value, _ = json.Marshal(p) // cannot fail for these types
	}
	s.write(PoolPart, p.Name, value)
}

// setPool replaces a pool in memory.
func (s *State) setPool(name string, p *Pool) {
	if p == nil || p.empty() {
		delete(s.pools, name)
	} else {
		s.pools[name] = p
	}
	s.index.pausePool(name, !s.claimable(s.pools[name]))
}

// pool returns a pool as it is.
func (s *State) pool(name string) Pool {
	if p := s.pools[name]; p != nil {
		return *p
	}
	return Pool{Name: name, State: PoolOpen}
}

// claimed takes note of the claim of a task. If the pool probes, that is the probe.
func (s *Step) claimed(r *Record) {
	p := s.state.pool(r.Pool)
	if p.State == PoolOpen || r.Assignee != "" {
		return
	}
	p.State, p.Probe = PoolProbes, r.ID
	s.setPool(p)
}

// attempted takes note of the end of an attempt at a task.
func (s *Step) attempted(r *Record, a Attempt) {
	if r.Pool == "" {
		return
	}
	before := s.state.pool(r.Pool)
	p, paused, opened := before.attempted(r.ID, a, s.state.config.PoolLimit(), a.silent())
	o, counts := obstacleMet(r.ID, a)
	if counts {
		var asks bool
		p, asks = p.met(o)
		s.Events[len(s.Events)-1].Asks = s.Events[len(s.Events)-1].Asks || asks
	}
	if !counts && !failed(a.Outcome.Kind) && p.State == before.State && p.Probe == before.Probe {
		return // nothing has changed
	}
	s.setPool(p)
	switch {
	case paused:
		s.Emit(Event{Kind: PoolIsPaused, Pool: &p, By: Actor{Name: controller}, Note: p.Reason})
	case opened:
		s.Emit(Event{Kind: PoolIsOpen, Pool: &p, By: Actor{Name: controller}, Note: r.ID + " has ended well"})
	}
}

// PausePool lets no task of a pool be claimed until a person resumes it.
func (s *Step) PausePool(actor Actor, name, reason string) (Pool, error) {
	if err := checkPool(actor, name, reason); err != nil {
		return Pool{}, err
	}
	p := s.state.pool(name)
	if p.State == PoolPaused && p.By != controller {
		return p, nil
	}
	p.State, p.Since, p.By, p.Probe, p.ProbeAt = PoolPaused, now(), actor.String(), "", time.Time{}
	p.Reason = strings.TrimSpace(reason)
	s.setPool(p)
	s.Emit(Event{Kind: PoolIsPaused, Pool: &p, By: actor, Note: p.Reason})
	return p, nil
}

// ResumePool lets the tasks of a pool be claimed again: all of them if a person has paused it, else one, whose
// attempt decides. A pool that probes already is left as it is.
func (s *Step) ResumePool(actor Actor, name string) (Pool, error) {
	if err := checkPool(actor, name, ""); err != nil {
		return Pool{}, err
	}
	p := s.state.pool(name)
	switch {
	case p.State != PoolPaused:
		return p, nil
	case p.By == controller:
		p.State, p.Probe, p.ProbeAt = PoolProbes, "", time.Time{}
	default:
		p = p.open()
	}
	s.setPool(p)
	s.Emit(Event{Kind: PoolIsOpen, Pool: &p, By: actor})
	return p, nil
}

func checkPool(actor Actor, name, reason string) error {
	if !actor.Person() {
		return fmt.Errorf("%w: only a person can pause and resume the tasks of a pool", ErrConflict)
	}
	if name == "" {
		return fmt.Errorf("%w: the name of the pool is missing", ErrInvalid)
	}
	return cmp.Or(CheckText("name of the pool", name, MaxName, false), CheckText("reason", reason, MaxReason, true))
}

// pausePool moves the tasks of a pool in or out of those that are ready.
func (x *Index) pausePool(name string, pause bool) {
	if x.paused[name] == pause {
		return
	}
	if pause {
		x.paused[name] = true
		if l := x.ready[Place{pool: name}]; l != nil {
			for _, e := range slices.Clone(l.entries) {
				x.requeue(e.ID)
			}
		}
		return
	}
	delete(x.paused, name)
	held := x.held[name]
	delete(x.held, name)
	for id := range held {
		x.requeue(id)
	}
}
