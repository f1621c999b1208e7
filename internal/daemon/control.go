package daemon

import "github.com/coppice-dev/coppice/internal/control"

// newControl returns what acts on the nodes of a controller for people and orders.
func newControl(c *Controller) *control.Manager {
	return control.New(control.Options{
		Store: c.opts.Store, Log: c.log, Journal: c.journal, Logger: c.opts.Logger, Tree: c.tree,
		Adoptions: c.agents.Adoptions, Stopper: c.stopper, Restarts: c.restarts, Reconcile: c.loop,
		Health: c.health, Drains: c.drains, Triggers: c.triggers, MayStart: c.pools.MayStart,
		Once: c.opts.Once, Started: c.started, End: c.Stop,
	})
}
