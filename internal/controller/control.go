package controller

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/control"
)

// newControl returns what acts on the nodes of a controller for people and orders.
func newControl(c *Controller) *control.Manager {
	return control.New(control.Options{
		Store: c.opts.Store, Log: c.log, Journal: c.journal, Logger: c.opts.Logger, Tree: c.tree,
		Adoptions: c.agents.Adoptions, Stopper: c.stopper, Restarts: c.restarts, Reconcile: c.loop,
		Health: c.health, Drains: c.drains, Triggers: c.triggers, MayStart: c.pools.MayStart,
		Once: c.opts.Once, Started: c.started, End: c.finish,
	})
}

var errStopping = errors.New("the daemon is stopping its agents already, and cannot keep them")

// finish ends the controller, and with it the fleet, because a person has asked for it. It may be stopping already.
func (c *Controller) finish(keep bool) error {
	if keep && isClosed(c.down) {
		return errStopping
	}
	c.asked.Store(true)
	c.Stop(keep)
	return nil
}
