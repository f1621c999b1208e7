package controller

import (
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/supervisor"
)

// fleet returns the desired state.
func (c *Controller) fleet() *fleet.Fleet { return c.applier.Fleet() }

// building returns the functions that make supervisor specifications. earlier may be nil.
func (c *Controller) building(earlier *fleet.Fleet,
	saved func(string) (*supervisor.Saved, *supervisor.SavedSelf)) fleet.Building {
	return fleet.Building{
		Start: c.startOf, Saved: saved, Suspended: c.control.IsProjectSuspended(), Once: c.opts.Once, Earlier: earlier,
	}
}
