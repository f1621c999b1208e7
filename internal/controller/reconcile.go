package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
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
		Do:   hands{c}.do,
		Held: hands{c}.logHeld,
		BeforePass: func() {
			c.orphans.Start()
			c.hashes.Refresh(c.fleet().Files)
			if c.opts.Places != nil {
				c.opts.Places.Update() // the end of a lease is no change of the registry
			}
			for _, r := range c.opts.Runtimes {
				if s, ok := r.(interface{ SetPerShim(n int) }); ok {
					s.SetPerShim(c.fleet().Patrol.PerShim)
				}
			}
		},
		AfterPlan: func() {
			c.restarts.DropOvertaken(c.agents.Session, c.loop.IsBusy)
			c.hashes.Save()
			wake(c.lasting.look)
		},
		AfterPass: func(took time.Duration) { c.metrics.Passed(took) },
		Interval:  func() time.Duration { return c.fleet().Patrol.Interval },
		Starts:    c.fleet().Patrol.Starts,
		Go:        c.background.run, Stopping: c.down, Ended: c.ended,
	})
}

// newApplier returns what carries out the desired state of a controller, which is f at first.
func newApplier(c *Controller, f *fleet.Fleet) *reconcile.Applier {
	return reconcile.NewApplier(f, reconcile.ApplierOptions{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Removals: &c.removals, Background: c.background.ctx,
		Find: c.tree.Find, Locate: c.tree.Locate, Last: c.tree.LastIncarnation, Exited: hands{c}.hasExited,
		Stop: func(
			ctx context.Context, path string, child supervisor.ChildInfo, stop func(context.Context) error,
		) error {
			return c.control.StopChild(ctx, path, child, stop)
		},
		Known:   func(path string) bool { return c.journal.Has(path) },
		IsPool:  func(path string) bool { return c.pools.Has(path) },
		Updated: func(paths []string) { parallel(paths, healthFleet{c}.amend) },
		Moved: func(ctx context.Context, path string) {
			if home := c.agents.Home(path); home != nil {
				hands{c}.removeSlots(ctx, path, home)
			}
		},
		Drain: func(a reconcile.Action) {
			c.drains.Renew(a.Path, a.Incarnation, a.Reason, a.Within, a.Counted)
		},
		Note:   func(path string, when reconcile.Restart) { c.loop.NoteRestart(path, when) },
		Ending: func(path string) { c.restarts.Drop(path, 0, "it is no longer wanted") },
		Removed: func(ctx context.Context, path string) {
			c.drains.Conclude(ctx, path)
			c.hashes.Forget(path)
			c.orphans.Forget(path)
			c.agents.Forget(path)
			c.health.Forget(path)
		},
		Discard: func(ctx context.Context, path string) { hands{c}.removeSlots(ctx, path, nil) },
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
		Suspended: func(path string) bool { return c.control.SuspendedBy(path) != "" },
		Triggered: c.triggers.Has,
		LastExit:  func(path string) supervisor.Exit { return c.tree.Unlisted(path).LastExit },
		Adoptions: c.agents.Adoptions, Orphans: c.orphans, Hashes: c.hashes,
		Agent: hands{c}.observe,
	}
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

// reconciler is the reconciliation of a controller as a patrol asks for it.
type reconciler struct {
	*reconcile.Loop
	c *Controller
}

var _ pool.Reconciler = reconciler{}

// Scan is part of pool.Reconciler.
func (r reconciler) Scan(ctx context.Context) {
	r.c.orphans.Scan(ctx)
	r.c.hashes.Await(ctx, r.c.fleet().Files)
}

// hands are the part of a controller that carries out what the reconciliation has decided, and that knows what it is
// decided by.
type hands struct{ c *Controller }

// do carries out an action of the reconciliation loop.
func (h hands) do(ctx context.Context, a reconcile.Action) {
	switch a.Kind {
	case reconcile.Stop:
		if h.c.applier.HasChild(a.Path) {
			h.c.applier.Remove(ctx, a.Path)
		} else {
			h.c.orphans.Stop(ctx, a.Path)
		}
	case reconcile.Suspend:
		h.c.applier.Suspend(ctx, a.Path, h.c.control.SuspendedBy(a.Path))
	case reconcile.Start:
		if !a.Adopt && h.c.control.SuspendedBy(a.Path) != "" {
			return // since it was planned
		}
		h.c.applier.Start(ctx, a.Path)
	case reconcile.End:
		h.c.health.FailIdle(a.Path)
	case reconcile.Release:
		h.c.applier.Release(a)
	case reconcile.Renew, reconcile.Drain:
		if a.Cause == reconcile.Requested {
			h.c.restarts.Perform(ctx, a.Path)
			return
		}
		h.c.applier.Replace(ctx, a)
	}
}

// hasExited reports whether an incarnation has exited. Its supervisor may not know yet, above
// all of an exit while no daemon ran.
func (h hands) hasExited(path string, incarnation uint64) bool {
	s := h.c.agents.Session(path)
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

// logHeld logs that a limit delays the restart of an agent.
func (h hands) logHeld(d reconcile.Delay) {
	h.c.log.Append(event.Event{
		Type: event.AgentQuarantined, Path: d.Path, Incarnation: h.c.tree.LastIncarnation(d.Path), Actor: "controller",
		Message: d.String(),
	}.With(map[string]any{"until": d.Until, "cause": d.Cause.String()}))
}

// observe fills in what the features know of a running incarnation.
func (h hands) observe(o *reconcile.Observed) {
	who := token.Caller{Path: o.Path, Incarnation: o.Incarnation}
	o.Request, o.Requested = h.c.restarts.Of(who)
	o.Draining = h.c.drains.IsDraining(o.Path, o.Incarnation)
	i := h.c.health.Incarnation(who)
	o.Idle, o.Asks = i.Idle(), i.SeesDrains()
	if h.c.opts.Places != nil {
		if to, why := h.c.opts.Places.Move(o.Path); to != "" {
			o.Moves = fmt.Sprintf("it moves to node %s: %s", to, why)
		}
	}
}

// removeSlots removes the slots of an agent in all runtimes except one, which may be nil.
func (h hands) removeSlots(ctx context.Context, path string, except runtime.Runtime) {
	for _, place := range h.c.opts.Runtimes {
		if place != except {
			h.c.agents.Remove(ctx, place, path)
		}
	}
}
