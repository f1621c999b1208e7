package controller

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// poolFleet is the fleet of a controller as its pools see it.
type poolFleet struct{ c *Controller }

var _ pool.Fleet = poolFleet{}

// newPools returns the pools of a controller.
func newPools(c *Controller) *pool.Manager {
	return pool.NewManager(pool.Options{
		Store: c.opts.Store, Logger: c.opts.Logger, Fleet: poolFleet{c}, Drains: c.drains, Append: c.log.Append,
		Go: c.background.run, Stopping: c.down, Ended: c.ended, Socket: c.opts.Socket, Check: c.opts.check,
	})
}

// restore readies the pools as the previous controller has left them.
func (f poolFleet) restore(ctx context.Context, records map[string]*agent.Record, orderly bool) error {
	var running []string
	for path, r := range records {
		if !r.Ended && r.Incarnation > 0 {
			running = append(running, path)
		}
	}
	err := f.c.pools.Restore(ctx, f.c.fleet().File.Pools(), running, orderly)
	f.layOut()
	return err
}

// adopt adds the instances of pools that live and that are in no record.
func (f poolFleet) adopt(found map[string][]agent.Slot) {
	var running []string
	for path, all := range found {
		if slices.ContainsFunc(all, agent.Slot.Lives) {
			running = append(running, path)
		}
	}
	if f.c.pools.Adopt(running) {
		f.layOut()
	}
}

// layOut replaces the first fleet by one with the instances of its pools.
func (f poolFleet) layOut() {
	first := f.c.fleet()
	next := fleet.New(f.c.pools.Layout(first.File), first.Config)
	next.File = first.File
	f.c.applier.SetFleet(next)
}

// Interval is part of pool.Fleet.
func (f poolFleet) Interval() time.Duration {
	if d := f.c.fleet().Tree.Patrol.Interval; d > 0 {
		return d
	}
	return spec.DefaultPatrol().Interval
}

// Runs is part of pool.Fleet.
func (f poolFleet) Runs(path string) bool {
	return !f.c.fleet().Suspended(path) && f.c.tree.Find(path) != nil
}

// Instances is part of pool.Fleet.
func (f poolFleet) Instances(path string) ([]pool.Instance, bool) {
	sup := f.c.tree.Find(path)
	if sup == nil {
		return nil, false
	}
	children, err := sup.Children()
	if err != nil {
		return nil, false
	}
	all := make([]pool.Instance, len(children))
	for n, i := range children {
		all[n] = pool.Instance{
			Name: i.ID, Incarnation: i.Incarnation,
			Lives: i.State == supervisor.Running || i.State == supervisor.Starting ||
				i.State == supervisor.Stopping,
			Completed: i.State == supervisor.Stopped && reconcile.PhaseOf(&i) == reconcile.Completed,
			Waits:     i.State == supervisor.Waiting,
			Deferred:  i.Reason == supervisor.ReasonDeferred,
		}
	}
	return all, true
}

// IsPending is part of pool.Fleet.
func (f poolFleet) IsPending(path string) bool {
	return f.c.agents.IsAdopting(path) || f.c.loop.IsBusy(path)
}

// Apply is part of pool.Fleet. The reconciler starts the instances that are new.
func (f poolFleet) Apply(ctx context.Context, p *pool.Controller) error {
	c := f.c
	release := c.loop.Freeze()
	if c.pools.Of(p.Path()) != p {
		release()
		return nil
	}
	undo := p.Lay()
	old := c.fleet()
	next, changes, _, err := c.replaceFleet(ctx, old.File, old.Config)
	if err != nil {
		undo()
		release()
		return err
	}
	c.applier.Update(ctx, next, changes)
	p.Listed()
	removed := slices.DeleteFunc(changes.Removed, next.Has) // what has taken the place of a pool stays
	defer c.loop.Claim(removed)()
	c.loop.Enqueue()
	release()
	parallel(removed, func(path string) {
		c.applier.Remove(ctx, path)
		if above, name, _ := cutLast(path); above == p.Path() {
			c.drains.Conclude(ctx, path) // also where the pool itself does not run
			p.Removed(name)
		}
	})
	return nil
}

// Environ is part of pool.Fleet.
func (f poolFleet) Environ(path string, template *spec.Agent) (*account.Account, []string, error) {
	as, err := f.c.agents.Identity(template)
	if err != nil {
		return nil, nil, err
	}
	return as.User, environOf(as, path, template), nil
}

// Boot is part of pool.Fleet.
func (f poolFleet) Boot(ctx context.Context, path string, template *spec.Agent, more []string) {
	if err := f.c.agents.RunHook(ctx, path, template, "on_boot", template.Pool.OnBoot, more); err != nil {
		f.c.opts.Logger.Error("cannot run on_boot", "path", path, "error", err)
	}
}
