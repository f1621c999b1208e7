package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// newLoop returns the reconciliation loop of a controller.
func newLoop(c *Controller) *reconcile.Loop {
	return reconcile.NewLoop(reconcile.LoopOptions{
		Desired: func() []reconcile.Desired { return c.observer.Desired(c.fleet()) },
		Observe: func() map[string]*reconcile.Observed { return c.observer.Observe(c.fleet()) },
		RemoveFirst: func(observed map[string]*reconcile.Observed) map[string][]string {
			return c.removals.Before(c.fleet(), observed)
		},
		Do:   c.reconcile,
		Held: c.logHeld,
		BeforePass: func() {
			c.orphans.Start()
			c.hashes.Refresh(c.fleet().Files)
		},
		AfterPlan: func() {
			c.restarts.DropOvertaken(c.agents.Session, c.loop.IsBusy)
			c.hashes.Save()
			notify(c.pauses.look)
		},
		Interval: func() time.Duration { return c.fleet().Patrol.Interval },
		Starts:   c.fleet().Patrol.Starts,
		Go:       c.background.run, Stopping: c.down, Ended: c.ended,
	})
}

// newOrphans returns what finds and stops the orphans of a project.
func newOrphans(c *Controller) *reconcile.Orphans {
	return reconcile.NewOrphans(reconcile.OrphansOptions{
		Runtimes: c.agents.Runtimes, Fleet: c.fleet, Remove: c.agents.Remove, Found: c.loop.Enqueue,
		Go: c.background.run, Append: func(e event.Event) { c.log.Append(e) }, Logger: c.opts.Logger,
	})
}

// newObserver returns what makes the desired and the observed state of a controller.
func newObserver(c *Controller) *reconcile.Observer {
	return &reconcile.Observer{
		Root:      func() *supervisor.Supervisor { return c.root },
		Suspended: func(path string) bool { return c.suspendedBy(c.fleet(), path) != "" },
		Triggered: c.triggers.Has,
		LastExit:  func(path string) supervisor.Exit { return c.forgotten(path).LastExit },
		Adoptions: c.agents.Adoptions, Orphans: c.orphans, Hashes: c.hashes,
		Agent: c.observeAgent,
	}
}

// observeAgent fills in what the features know of a running incarnation.
func (c *Controller) observeAgent(o *reconcile.Observed) {
	who := api.Caller{Path: o.Path, Incarnation: o.Incarnation}
	o.Request, o.Requested = c.restarts.Of(who)
	o.Draining = c.drains.IsDraining(o.Path, o.Incarnation)
	i := c.health.Incarnation(who)
	o.Idle, o.Asks = i.Idle(), i.SeesDrains()
}

// newReloader returns what reads the configuration of a controller again.
func newReloader(c *Controller) *reconcile.Reloader {
	return reconcile.NewReloader(reconcile.ReloaderOptions{
		Load: c.opts.Load, Fleet: c.fleet, Loop: c.loop, Logger: c.opts.Logger, Stopping: c.down,
		Append: func(e event.Event) { c.log.Append(e) },
		Apply: func(tree *spec.Tree, config fleet.Config) (spec.Changes, error) {
			return c.apply(c.background.ctx, tree, config) // which goes on when a client leaves
		},
	})
}

// Reload is part of api.Patrols.
func (c *Controller) Reload(ctx context.Context) (api.Reloaded, error) { return c.reloader.Reload(ctx) }

// scanTime bounds the wait of a client for a scan.
const scanTime = 5 * time.Second

// Patrol is part of api.Patrols.
func (c *Controller) Patrol(ctx context.Context, dry bool) (api.Round, error) {
	select {
	case <-c.down:
		return api.Round{}, api.ErrStopping
	default:
	}
	look, cancel := context.WithTimeout(ctx, scanTime)
	c.orphans.Scan(look)
	c.hashes.Await(look, c.fleet().Files)
	cancel()
	res := c.loop.Plan()
	if !dry {
		c.loop.Enqueue()
		c.pools.CheckAll()
	}
	round := shownRound(res)
	round.Pools = c.pools.All()
	return round, nil
}

// shownRound is what there is to do, as the API says it.
func shownRound(res reconcile.Result) api.Round {
	r := api.Round{Actions: []api.RoundAction{}, Delays: []api.RoundDelay{}, Pools: []api.PoolAt{}}
	for _, a := range res.Actions {
		r.Actions = append(r.Actions, api.RoundAction{Action: a.Kind.String(), Path: a.Path, Cause: a.Cause.String(),
			Fields: a.Fields, Reason: a.Reason})
	}
	for _, d := range res.Delays {
		shown := api.RoundDelay{Path: d.Path, For: d.For, Cause: d.Cause.String()}
		if !d.Until.IsZero() {
			shown.Until = &d.Until
		}
		r.Delays = append(r.Delays, shown)
	}
	return r
}

// reconcile carries out an action of the reconciliation loop.
func (c *Controller) reconcile(ctx context.Context, a reconcile.Action) {
	switch a.Kind {
	case reconcile.Stop:
		if c.supervised(a.Path) {
			c.withdraw(ctx, a.Path)
		} else {
			c.orphans.Stop(ctx, a.Path)
		}
	case reconcile.Suspend:
		c.suspend(ctx, a.Path)
	case reconcile.Start:
		if !a.Adopt && c.suspendedBy(c.fleet(), a.Path) != "" {
			return // since it was planned
		}
		c.ensureNode(ctx, a.Path)
	case reconcile.End:
		c.health.FailIdle(a.Path)
	case reconcile.Release:
		c.release(a)
	case reconcile.Renew, reconcile.Drain:
		if a.Cause == reconcile.Requested {
			c.restarts.Perform(ctx, a.Path)
			return
		}
		c.replaced(ctx, a)
	}
}

// supervised reports whether a supervisor has a child at a path.
func (c *Controller) supervised(path string) bool {
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return false
	}
	_, err := sup.Child(id)
	return err == nil
}

// hasExited reports whether an incarnation has exited. Its supervisor may not know yet, above
// all of an exit while no daemon ran.
func (c *Controller) hasExited(path string, incarnation uint64) bool {
	s := c.live(path)
	if s == nil {
		return false
	}
	select {
	case <-s.Done():
		return s.Observe().Incarnation == incarnation
	default:
		return false
	}
}

// suspend stops what the file suspends. It starts when the file no longer does.
func (c *Controller) suspend(ctx context.Context, path string) {
	sup, id, err := c.locate(path)
	if err == nil {
		var info supervisor.ChildInfo
		if info, err = sup.Child(id); err == nil {
			err = c.stopChild(ctx, path, info, func(ctx context.Context) error {
				return sup.TerminateChild(ctx, id, supervisor.ReasonSuspended)
			})
		}
	}
	if err != nil {
		c.logUnexpected("cannot stop what the file suspends", path, err)
		return
	}
	c.log.Append(event.Event{
		Type: event.AgentSuspended, Path: path, Incarnation: c.last(path), Actor: "controller",
		Message: path + " is suspended: " + c.suspendedBy(c.fleet(), path),
	})
}

// logHeld logs that a limit delays the restart of an agent.
func (c *Controller) logHeld(d reconcile.Delay) {
	c.log.Append(event.Event{
		Type: event.AgentQuarantined, Path: d.Path, Incarnation: c.last(d.Path), Actor: "controller",
		Message: d.String(),
	}.With(map[string]any{"until": d.Until, "cause": d.Cause.String()}))
}

// logUnexpected logs an error of a supervisor, except one that an event reports, and one
// that says that the node is being taken care of already.
func (c *Controller) logUnexpected(what, path string, err error) {
	var start *supervisor.StartError
	var held *supervisor.HeldError
	switch {
	case err == nil, errors.As(err, &start), errors.As(err, &held),
		errors.Is(err, supervisor.ErrRunning), errors.Is(err, supervisor.ErrNotRunning),
		errors.Is(err, supervisor.ErrRestarting),
		errors.Is(err, supervisor.ErrTerminated), errors.Is(err, supervisor.ErrPaused),
		errors.Is(err, supervisor.ErrStopping),
		errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrNotFound),
		errors.Is(err, context.Canceled):
	default:
		c.opts.Logger.Warn(what, "path", path, "error", fmt.Sprint(err))
	}
}
