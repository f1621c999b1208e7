package task

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// claimable reports whether a task of a pool can be claimed now.
func (s *State) claimable(p pools.Pool) bool {
	probe := s.Record(p.Probe)
	return p.Claimable(s.index.now, probe != nil && probe.Claim != nil && probe.Pool == p.Name)
}

// Pools returns what is known of pools, sorted by name. Those that are missing are open.
func (s *State) Pools() (all []pools.Pool) {
	for _, p := range s.pools {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b pools.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// pool returns a pool as it is.
func (s *State) pool(name string) pools.Pool {
	if p, known := s.pools[name]; known {
		return p
	}
	return pools.New(name)
}

// setPool replaces a pool in memory, and returns the one before.
func (s *State) setPool(p pools.Pool) (before pools.Pool) {
	before = s.pool(p.Name)
	if p.Empty() {
		delete(s.pools, p.Name)
	} else {
		s.pools[p.Name] = p
	}
	s.index.pausePool(p.Name, !s.claimable(p))
	return before
}

// claimed takes note of the claim of a task.
func (s *Step) claimed(r *Record) {
	if p := s.state.pool(r.Pool); p.State != pools.Open && r.Assignee == "" {
		s.setPool(p.Claimed(r.ID))
	}
}

// failed reports whether an attempt speaks against its pool: it has failed, or was escalated, whatever the obstacle.
// One that was deferred or blocked is no failure.
func failed(kind outcome.Kind) bool { return routeOf(kind).counts || kind == outcome.Escalated }

// attempted takes note of the end of an attempt at a task, of which the last event is.
func (s *Step) attempted(r *Record, a Attempt) {
	if r.Pool == "" {
		return
	}
	p, effect := s.state.pool(r.Pool).Ended(pools.Attempt{
		Task: r.ID, EndedAt: a.EndedAt, Outcome: a.Outcome, Failed: failed(a.Outcome.Kind), Stopped: a.silent(),
	}, s.state.config.PoolLimit())
	if !effect.Changed {
		return
	}
	if effect.Asks {
		s.Events[len(s.Events)-1].Asks = true
	}
	s.setPool(p)
	switch {
	case effect.Paused:
		s.Emit(Event{Kind: PoolIsPaused, Pool: &p, By: Actor{Name: controller}, Note: p.Reason})
	case effect.Opened:
		s.Emit(Event{Kind: PoolIsOpen, Pool: &p, By: Actor{Name: controller}, Note: r.ID + " has ended well"})
	}
}

// PausePool lets no task of a pool be claimed until a person resumes it.
func (s *Step) PausePool(actor Actor, name, reason string) (pools.Pool, error) {
	if err := checkPool(actor, name, reason); err != nil {
		return pools.Pool{}, err
	}
	p, changed := s.state.pool(name).Pause(actor.String(), strings.TrimSpace(reason), now())
	if changed {
		s.setPool(p)
		s.Emit(Event{Kind: PoolIsPaused, Pool: &p, By: actor, Note: p.Reason})
	}
	return p, nil
}

// ResumePool lets the tasks of a pool be claimed again: all of them if a person has paused it, else one, whose
// attempt decides. A pool that probes already is left as it is.
func (s *Step) ResumePool(actor Actor, name string) (pools.Pool, error) {
	if err := checkPool(actor, name, ""); err != nil {
		return pools.Pool{}, err
	}
	p, changed := s.state.pool(name).Resume()
	if changed {
		s.setPool(p)
		s.Emit(Event{Kind: PoolIsOpen, Pool: &p, By: actor})
	}
	return p, nil
}

// ForgetObstacles removes the obstacles of a pool that people were asked about: their count begins again.
func (s *Step) ForgetObstacles(actor Actor, name string) error {
	if err := checkPool(actor, name, ""); err != nil {
		return err
	}
	if p, changed := s.state.pool(name).ForgetObstacles(); changed {
		s.setPool(p)
	}
	return nil
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
