package controller

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// drainAgents are the agents of a controller as its drains see them.
type drainAgents struct{ c *Controller }

var _ drain.Agents = drainAgents{}

// newDrains returns the drains of a controller.
func newDrains(c *Controller) *drain.Manager {
	return drain.New(drain.Options{
		Store: c.opts.Store, Logger: c.opts.Logger, Agents: drainAgents{c}, Record: c.journal.Write,
		Go: c.background.run,
		Changed: func(path string) {
			c.loop.Enqueue()
			c.pools.Wake(path)
		},
		Launched: c.launched,
	})
}

// restore reads the drains of the previous controller. An agent that has exited
// since is stopped in the records, as it would have been.
func (a drainAgents) restore(ctx context.Context, records map[string]*agent.Record) error {
	return a.c.drains.Restore(ctx, func(path string) (drain.Previous, bool) {
		r := records[path]
		if r == nil {
			return drain.Previous{}, false
		}
		return drain.Previous{
			Incarnation: r.Incarnation, Ended: r.Ended, Suspended: r.State == supervisor.Suspended.String(),
			Wanted: a.c.fleet().Agents[path] != nil && !a.c.opts.Once,
		}, true
	}, func(path string) store.Op {
		r := records[path]
		r.State, r.Reason, r.SavedAt = supervisor.Suspended.String(), supervisor.ReasonDrained.String(), time.Now()
		return r.Op()
	})
}

// Below is part of drain.Agents.
func (a drainAgents) Below(path string) (agents []string, err error) {
	path = a.c.fleet().Resolve(path)
	f := a.c.fleet()
	if !f.Has(path) {
		return nil, a.c.fleet().NotFound(path)
	}
	for agent := range f.Agents {
		if below(agent, path) {
			agents = append(agents, agent)
		}
	}
	return agents, nil
}

// Child is part of drain.Agents.
func (a drainAgents) Child(path string) (supervisor.ChildInfo, error) {
	sup, id, err := a.c.tree.Locate(path)
	if err != nil {
		return supervisor.ChildInfo{}, err
	}
	info, err := a.c.tree.Child(sup, id)
	return info, control.Error(path, err)
}

// StopNow is part of drain.Agents.
func (a drainAgents) StopNow(ctx context.Context, path string) error {
	_, err := a.c.control.Act(ctx, path, control.Stop)
	return err
}

// Suspend is part of drain.Agents. It stops an agent as a stop by hand does.
func (a drainAgents) Suspend(ctx context.Context, path string) ([]store.Op, error) {
	sup, id, err := a.c.tree.Locate(path)
	if err != nil {
		return nil, err
	}
	a.c.control.AdoptBelow(ctx, path)
	if err = sup.SuspendChild(ctx, id, supervisor.ReasonDrained); err == nil {
		var saved supervisor.Saved
		if saved, _, err = sup.Save(id); err == nil {
			return []store.Op{agent.NewRecord(path, saved.Incarnation, true, saved).Op()}, nil
		}
	}
	if errors.Is(err, supervisor.ErrNotFound) { // a temporary one, which has ended for good
		return nil, nil
	}
	return nil, control.Error(path, err)
}

// Renew is part of drain.Agents.
func (a drainAgents) Renew(ctx context.Context, path string, incarnation uint64, counted bool) {
	sup, id, err := a.c.tree.Locate(path)
	if err != nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil || info.Incarnation != incarnation {
		return // it was started again already
	}
	err = a.c.applier.Restart(ctx, sup, id, supervisor.ReasonChanged, counted)
	a.c.applier.LogUnexpected("cannot restart a drained agent", path, err)
}

// DropRestart is part of drain.Agents.
func (a drainAgents) DropRestart(path, why string) { a.c.restarts.Drop(path, 0, why) }

// StopWaiting is part of drain.Agents.
func (a drainAgents) StopWaiting(path string) bool { return a.c.health.Drain(path) }

// ChecksDrains is part of drain.Agents.
func (a drainAgents) ChecksDrains(who token.Caller) { a.c.health.Incarnation(who).SetSeesDrains() }

// Nudge is part of drain.Agents.
func (a drainAgents) Nudge(ctx context.Context, path, text string) { a.c.health.Nudge(ctx, path, text) }
