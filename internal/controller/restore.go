package controller

import (
	"context"
	"fmt"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// restore restores the state of the last daemon: its records, and the agents that run or have ended
// since.
func (c *Controller) restore(ctx context.Context) (*agent.SavedState, error) {
	saved, err := c.agents.Load(ctx)
	if err != nil {
		return nil, err
	}
	if err := (poolFleet{c}).restore(ctx, saved.Records, saved.Orderly); err != nil {
		return nil, err
	}
	if err := (drainAgents{c}).restore(ctx, saved.Records); err != nil {
		return nil, err
	}
	if err := c.restarts.Restore(ctx, c.fleet().Agents, saved.Records); err != nil {
		return nil, err
	}
	found, err := c.agents.Look(ctx)
	if err != nil {
		return nil, err
	}
	c.logEmptied(len(found))
	poolFleet{c}.adopt(found)
	for path, r := range saved.Records {
		if r.Incarnation > 0 {
			c.journal.Restore(path, r.Incarnation)
			c.hashes.Restore(path, r.Hash)
		}
	}
	if err := c.hashes.Load(ctx); err != nil {
		return nil, err
	}
	saved.Forgets, saved.ForgetsSelf = c.fleet().Forgets, c.fleet().ForgetsOwn
	c.agents.Restore(ctx, saved, found)
	c.clearHolds(saved)
	return saved, nil
}

// logEmptied logs that the store has nothing although agents ran here: it was removed with its mark,
// or all of the directory was.
func (c *Controller) logEmptied(slots int) {
	if _, durable := c.opts.Store.(interface{ Path() string }); !durable || c.before > 0 || slots == 0 {
		return
	}
	message := fmt.Sprintf("the store is empty, but %d agents have run here: beliefs, tasks and events of before "+
		"are gone; coppice restore FILE brings a backup back", slots)
	c.opts.Logger.Warn(message)
	c.log.Append(event.Event{Type: event.StoreDamaged, Actor: "controller", Message: message})
}

// clearHolds logs each node that the last daemon has held, and that this one starts because the
// counters of its limit are not kept: each start of the daemon gives the node its budget again.
func (c *Controller) clearHolds(saved *agent.SavedState) {
	f := c.fleet()
	for _, path := range f.Order {
		r := saved.Records[path]
		if r == nil || c.opts.Once || hasAidefile(f.Agents[path]) || !saved.Forgets(path) {
			continue
		}
		kind := event.AgentReleased
		if f.Nodes[path] != nil {
			kind = event.SupervisorReleased
		}
		switch s := r.Saved(); s.State {
		case supervisor.Quarantined, supervisor.GivenUp:
			held := s.State
			agent.ResetLimit(s)
			c.log.Append(event.Event{
				Type: kind, Path: path, Incarnation: r.Incarnation, Actor: "controller",
				Message: fmt.Sprintf("%s is started and no longer %v: the counters of its limit ended with "+
					"the daemon that kept them", path, held),
			}.With(event.Cause{Reason: "controller restarted"}),
				agent.NewRecord(path, r.Incarnation, r.Ended, *s).Op())
		}
	}
}
