package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/reconcile/hash"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// updateTime is how long a supervisor may take to hear of its new
// specification: one that is restarting its children hears of it afterwards.
const updateTime = 2 * time.Second

// RestartError: a file that is valid asks for what a running controller cannot change.
type RestartError struct{ What, From, To string }

func (e *RestartError) Error() string {
	return fmt.Sprintf("%s has changed from %s to %s, which takes a restart of the daemon: "+
		"coppice down, then coppice up", e.What, e.From, e.To)
}

// apply makes another tree the one that is wanted, and touches only what
// differs: what is no longer there is stopped, what is new is started, agents
// that differ in what a running process cannot change are renewed, everything
// else is changed in place. Stops by hand, quarantines and counters stay with
// the path. It returns when the supervisors know; the patrol then stops, starts
// and renews agents. An error means that nothing has changed.
func (c *Controller) apply(ctx context.Context, tree *spec.Tree, config fleet.Config) (spec.Changes, error) {
	defer c.loop.Freeze()()
	next, changes, retired, err := c.replace(ctx, tree, config)
	if err != nil {
		return spec.Changes{}, err
	}
	c.orders.Replace(tree.Orders)
	c.triggers.ResetGivenUp(ctx)
	c.carry(ctx, next, changes)
	c.triggers.Apply()
	c.loop.Enqueue()
	changes.Removed = append(changes.Removed, retired...) // as far as the file goes
	return changes, nil
}

// carry tells the supervisors of a fleet that has replaced another one. The loop must be frozen.
func (c *Controller) carry(ctx context.Context, next *fleet.Fleet, changes spec.Changes) {
	for _, path := range changes.Removed {
		if next.Has(path) { // an agent has become a supervisor, or the other way round
			c.withdraw(c.background.ctx, path)
		}
	}
	for _, path := range changes.Supervisors { // parents first: one that does not run starts with what it is given
		c.update(ctx, next, path, changes.Added)
	}
	parallel(changes.Changed, c.amend)
	c.releaseAbove(slices.Concat(changes.Removed, changes.Added, changes.Changed))
}

// releaseAbove starts supervisors that are held, where something in them has
// changed: it may be what has failed. Of agents that are held, see release.
func (c *Controller) releaseAbove(changed []string) {
	for _, path := range changed {
		for above, _, ok := cutLast(path); ok; above, _, ok = cutLast(above) {
			sup, id, err := c.locate(above)
			if err != nil {
				continue
			}
			if info, err := sup.Child(id); err == nil && reconcile.IsHeld(info.State) {
				c.logUnexpected("cannot release a held supervisor", above, sup.Reset(id))
			}
		}
	}
}

// replace makes the tree of a file the desired state, with the instances of its pools and
// with the pools that it no longer has. It returns the changes, and the pools that it retires. The loop must be frozen.
func (c *Controller) replace(ctx context.Context, file *spec.Tree, config fleet.Config) (next *fleet.Fleet,
	changes spec.Changes, retired []string, err error) {
	old := c.fleet()
	if err := c.accepts(old.File, file); err != nil {
		return nil, changes, nil, err
	}
	next = fleet.New(c.pools.Layout(file), config)
	next.File = file
	if err := next.Check(c.agents.Runtimes()); err != nil {
		return nil, changes, nil, err
	}
	known, err := c.pastOf(ctx, next)
	if err != nil {
		return nil, changes, nil, err
	}
	if err := next.Specify(c.building(old, c.triggersFor(next, known))); err != nil {
		return nil, changes, nil, err
	}
	c.removals.Replaced(old, next)
	c.wanted.Store(next)
	c.log.Retain(file.Retention.Bounds())
	c.declareBeliefs(next)
	retired = c.pools.Adjust(file.Pools(), next.Tree.Pools())
	return next, spec.Compare(old.Tree, next.Tree), retired, nil
}

// accepts returns an error for a change that takes a restart of the daemon.
func (c *Controller) accepts(old, tree *spec.Tree) error {
	if old.Root.Name != tree.Root.Name {
		return &RestartError{"the name of the project", spec.Quote(old.Root.Name), spec.Quote(tree.Root.Name)}
	}
	if old.Persistence != tree.Persistence {
		where := func(p spec.Persistence) string { return strings.TrimSpace(p.Backend.String() + " " + p.Path) }
		return &RestartError{"where the state is kept", where(old.Persistence), where(tree.Persistence)}
	}
	return nil
}

// withdraw stops a node that is no longer in the fleet, with all below it, and forgets it.
func (c *Controller) withdraw(ctx context.Context, path string) {
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil {
		return
	}
	gone := leaves(nil, path, info)
	for _, agent := range gone {
		c.restarts.Drop(agent, 0, "it is no longer wanted")
		c.part(agent)
	}
	if err := c.stopChild(ctx, path, info, func(ctx context.Context) error {
		return discard(ctx, sup, id,
			c.withdrawnWhy(path))
	}); err != nil {
		c.logUnexpected("cannot stop what is no longer declared", path, err)
		return // the next pass tries again
	}
	defer c.removals.Ended(path)
	for _, agent := range gone {
		c.drains.Conclude(ctx, agent)
		c.hashes.Forget(agent)
		c.orphans.Forget(agent)
		c.agents.Forget(agent)
		c.health.Forget(agent)
		var last []store.Op
		if c.fleet().Agents[agent] == nil { // else its slot is used again
			for _, place := range c.opts.Runtimes {
				c.agents.Remove(ctx, place, agent)
			}
			c.triggers.RemoveFiles(agent)
			last = append(last, c.lastOf(agent, c.last(agent)).Op(), store.Op{Kind: store.Delete, Key: hash.Key(agent)})
		}
		why := " is no longer in the file, and has been removed"
		if c.fleet().Nodes[path] == nil && c.pools.Has(above) {
			why = " is no longer needed by its pool, and has been removed"
		}
		c.log.Append(event.Event{
			Type: event.AgentRemoved, Path: agent, Incarnation: c.last(agent), Actor: "controller",
			Message: agent + why,
		}, last...)
	}
}

// withdrawnWhy returns the reason for withdrawing a node.
func (c *Controller) withdrawnWhy(path string) supervisor.Reason {
	f := c.fleet()
	switch {
	case f.Has(path): // as something else
		return supervisor.ReasonChanged
	case f.Nodes[parent(path)] != nil && c.pools.Has(parent(path)) && !f.Retired(parent(path)):
		return supervisor.ReasonSurplus
	}
	return supervisor.ReasonRemoved
}

// discard stops a child and takes it from the list.
func discard(ctx context.Context, sup *supervisor.Supervisor, id string, why supervisor.Reason) error {
	for {
		err := sup.TerminateChild(ctx, id, why)
		if err == nil {
			err = sup.DeleteChild(id)
		}
		switch {
		// somebody has started it meanwhile
		case errors.Is(err, supervisor.ErrRunning), errors.Is(err, supervisor.ErrRestarting):
		case errors.Is(err, supervisor.ErrNotFound):
			return nil
		default:
			return err
		}
	}
}

// leaves appends the agents at and below a child.
func leaves(all []string, path string, info supervisor.ChildInfo) []string {
	if info.Type == supervisor.Worker {
		return append(all, path)
	}
	if info.Sub == nil {
		return all
	}
	children, err := info.Sub.Children()
	if err != nil {
		return all
	}
	for _, child := range children {
		all = leaves(all, path+"/"+child.ID, child)
	}
	return all
}

// part saves the state of an agent before it is removed, for when it is declared again.
func (c *Controller) part(path string) {
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return
	}
	if saved, _, err := sup.Save(id); err == nil {
		c.mu.Lock()
		c.gone[path] = saved
		c.mu.Unlock()
	}
}

// lastOf returns the last record of an agent that was removed. When it is declared again it
// starts, unless a person or a limit has decided otherwise.
func (c *Controller) lastOf(path string, incarnation uint64) *agent.Record {
	c.mu.Lock()
	saved, ok := c.gone[path]
	c.mu.Unlock()
	if !ok {
		return &agent.Record{Path: path, Incarnation: incarnation, Ended: true, State: supervisor.Waiting.String()}
	}
	r := agent.NewRecord(path, max(incarnation, saved.Incarnation), true, saved)
	if !r.IsKept() {
		r.State, r.Reason = supervisor.Waiting.String(), ""
	}
	return r
}

// update gives a running supervisor its new specification. New children are listed; the
// reconciler starts them.
func (c *Controller) update(ctx context.Context, f *fleet.Fleet, path string, added []string) {
	sup := c.find(path)
	if sup == nil {
		return // it starts with what its parent has been told
	}
	s := *f.Spec(path)
	s.Children = slices.Clone(s.Children)
	for i := range s.Children {
		s.Children[i].Deferred = slices.Contains(added, path+"/"+s.Children[i].ID)
	}
	done := make(chan error, 1)
	go func() { done <- sup.Update(s) }()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, supervisor.ErrNoSupervisor) && !errors.Is(err, supervisor.ErrStopping) {
			c.opts.Logger.Error("a supervisor cannot be changed", "path", path, "error", err)
		}
	case <-time.After(updateTime):
		c.opts.Logger.Info("a supervisor is busy and hears of its change later", "path", path)
	case <-ctx.Done():
	}
}

// together is how many agents are started or stopped at the same time.
const together = 16

// parallel does something to all paths, some at a time, and waits for the end of it.
func parallel(paths []string, do func(string)) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, together)
	for _, path := range paths {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			do(path)
		})
	}
	wg.Wait()
}

// ensureNode starts a declared node that does not run, unless something holds it.
func (c *Controller) ensureNode(ctx context.Context, path string) {
	sup, id, err := c.locate(path)
	if err == nil {
		_, err = sup.EnsureChild(ctx, id)
	}
	c.logUnexpected("cannot start what is declared", path, err)
}
