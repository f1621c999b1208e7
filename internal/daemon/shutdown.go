package daemon

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// newStopper returns what stops the agents of a controller.
func newStopper(c *Controller) *agent.Stopper {
	return agent.NewStopper(agent.StopOptions{
		Log: c.log, Timeout: c.stopTimeout, Find: c.find, Ended: c.ended,
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

// suspendChild stops a child so that it stays down.
func (c *Controller) suspendChild(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo,
	why supervisor.Reason) error {
	path := sup.Path() + "/" + info.ID
	c.adoptBelow(ctx, path)
	return c.stopChild(ctx, path, info, func(ctx context.Context) error { return sup.SuspendChild(ctx, info.ID, why) })
}

// adoptTime is how long a stop waits until agents that were found running are adopted.
const adoptTime = time.Second

// adoptBelow has the agents at and below a path adopted that were found running: a supervisor can
// stop only what it has. One that is not ready by the end of adoptTime is being started then, and is
// stopped with that.
func (c *Controller) adoptBelow(ctx context.Context, path string) {
	var agents []string
	above := make(map[string]bool) // supervisors of these, at and below path
	for _, at := range c.agents.Adoptions() {
		if !below(at, path) {
			continue
		}
		agents = append(agents, at)
		for up := parent(at); below(up, path); up = parent(up) {
			above[up] = true
		}
	}
	if len(agents) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	ensure := func(path string) {
		if sup, id, err := c.locate(path); err == nil {
			sup.EnsureChild(ctx, id) // unless it was started meanwhile
		}
	}
	for _, at := range c.fleet().Order { // parents first
		if above[at] {
			ensure(at)
		}
	}
	parallel(agents, ensure)
}

// stopChild stops a child by calling stop; with a supervisor, all agents below it in their order. That
// goes on when ctx ends.
func (c *Controller) stopChild(
	ctx context.Context, path string, child supervisor.ChildInfo, stop func(context.Context) error,
) error {
	if child.Sub == nil || c.stopper.IsStopping(path) {
		return stop(ctx)
	}
	return c.stopBelow(ctx, path, stop)
}

// stopBelow stops a part of the tree; stop tells the supervisors. It goes on when ctx ends.
func (c *Controller) stopBelow(ctx context.Context, path string, stop func(context.Context) error) error {
	return finish(ctx, func(ctx context.Context) error { return c.stopper.Stop(ctx, path, stop) })
}
