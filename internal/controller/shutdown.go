package controller

import (
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
)

// newStopper returns what stops the agents of a controller.
func newStopper(c *Controller) *agent.Stopper {
	return agent.NewStopper(agent.StopOptions{
		Log: c.log, Timeout: c.stopTimeout, Find: c.tree.Find, Ended: c.ended,
		Order: func(path string) *spec.StartOrder { return c.fleetOf(path).Tree.StartOrder() },
	})
}

// stopTimeout returns how long an agent may take to stop: agent.StopTimeout, and the time of its
// on_resting hook. Zero: it is killed at once.
func (c *Controller) stopTimeout(path string) time.Duration {
	a := c.fleetOf(path).Agents[path] // nil for an instance that its pool no longer wants
	timeout := agent.StopTimeout(c.fleet().Tree.Patrol, a)
	if timeout > 0 && a != nil && a.Hooks.Resting.Exists() {
		timeout += a.Hooks.Resting.Timeout
	}
	return timeout
}

// fleetOf returns the fleet that a path belongs to: the one in force, or the last one that had it.
func (c *Controller) fleetOf(path string) *fleet.Fleet { return c.removals.FleetOf(path, c.fleet()) }
