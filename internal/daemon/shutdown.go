package daemon

import (
	"cmp"
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// stopTimeout returns how long an agent may take to stop: its own grace period, or shutdown_timeout if
// it declares none, and the time of its on_resting hook. Zero: it is killed at once.
func (c *Controller) stopTimeout(path string) time.Duration {
	a := c.fleetOf(path).agents[path] // nil for an instance that its pool does not want any more
	own := graceOf(c.fleet().tree.Patrol, a)
	if own > 0 && a != nil && a.Hooks.Resting.Exists() {
		own += a.Hooks.Resting.Timeout
	}
	return own
}

// graceOf returns the part of a stop timeout that is for the agent itself, which may be nil.
func graceOf(p spec.Patrol, a *spec.Agent) time.Duration {
	own := p.ShutdownTimeout
	if a == nil {
		return own
	}
	if _, signal, _ := spec.ParseSignal(a.Shutdown.Signal); signal == syscall.SIGKILL || own == 0 {
		return 0
	}
	if a.Shutdown.Grace != supervisor.DefaultShutdown {
		own = a.Shutdown.Grace
	}
	return own
}

// fleetOf is the fleet that a path belongs to: the one in force, or the last one
// that had it.
func (c *Controller) fleetOf(path string) *fleet {
	f := c.fleet()
	if f.has(path) {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.departed[path], f)
}

// beginStop plans to stop all agents of a part of the tree in their order.
func (c *Controller) beginStop(path string) *shutdown.Run {
	return c.agents.BeginStop(path, c.fleetOf(path).tree.StartOrder(), func() {
		if sup := c.find(path); sup != nil {
			askTogether(sup)
		}
	})
}

// askTogether has a supervisor, and those below it, ask all children at once when it ends.
func askTogether(sup *supervisor.Supervisor) {
	children, _ := sup.Children()
	for _, child := range children {
		if child.Sub != nil {
			askTogether(child.Sub)
		}
	}
	sup.StopTogether() // one that has ended has nothing to stop
}

// noteOverdue keeps which agents did not stop in time when everything was stopped.
func (c *Controller) noteOverdue(o api.Overdue) {
	if isClosed(c.down) {
		c.mu.Lock()
		c.late = append(c.late, o)
		c.mu.Unlock()
	}
}

// shutDown ends the whole tree. Nothing in it starts again.
func (c *Controller) shutDown() {
	run := c.beginStop(c.root.Path())
	c.root.Stop()
	run.Do(c.hurry, c.ended)
	close(c.parted)
	if !c.agents.IsEmpty() { // some do not end at all, and have been waited for already
		c.root.Kill()
	}
}

// Farewell is part of api.Farewells.
func (c *Controller) Farewell(ctx context.Context) (api.Farewell, error) {
	select {
	case <-c.parted:
	case <-c.hurry:
	case <-c.ended:
	case <-ctx.Done():
		return api.Farewell{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Farewell{Overdue: append([]api.Overdue{}, c.late...)}, nil
}

// suspendChild stops a child so that it stays down.
func (c *Controller) suspendChild(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo,
	why supervisor.Reason) error {
	path := sup.Path() + "/" + info.ID
	c.takeOverBelow(ctx, path)
	return c.ending(ctx, path, info, func(ctx context.Context) error { return sup.SuspendChild(ctx, info.ID, why) })
}

// takeOverTime is how long a stop waits until what was found running is taken over.
const takeOverTime = time.Second

// takeOverBelow has the agents at and below a path taken over that were found
// running: a supervisor can only stop what it has. One that is not ready by the end
// of takeOverTime is being started then, and is stopped with that.
func (c *Controller) takeOverBelow(ctx context.Context, path string) {
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
	ctx, cancel := context.WithTimeout(ctx, takeOverTime)
	defer cancel()
	ensure := func(path string) {
		if sup, id, err := c.locate(path); err == nil {
			sup.EnsureChild(ctx, id) // or somebody else has started it
		}
	}
	for _, at := range c.fleet().order { // parents first
		if above[at] {
			ensure(at)
		}
	}
	parallel(agents, ensure)
}

// ending stops a child as stop says; with a supervisor, all agents below it in their
// order. That goes on when ctx ends.
func (c *Controller) ending(ctx context.Context, path string, child supervisor.ChildInfo,
	stop func(context.Context) error) error {
	if child.Sub == nil || c.agents.IsStopping(path) {
		return stop(ctx)
	}
	return c.leaving(ctx, path, stop)
}

// leaving stops a part of the tree, of which stop tells the supervisors. It goes
// on when ctx ends.
func (c *Controller) leaving(ctx context.Context, path string, stop func(context.Context) error) error {
	return finish(ctx, func(ctx context.Context) error {
		run := c.beginStop(path)
		defer run.End()
		stopped := make(chan error, 1)
		go func() { stopped <- stop(ctx) }()
		run.Do(c.hurry, c.ended)
		return <-stopped
	})
}

// partings says of what is not wanted any more what has to end before it: what
// has depended on it, and is not wanted any more, either. What is gone is forgotten.
func (c *Controller) partings(f *fleet, observed map[string]*reconcile.Observed) map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.departed) == 0 {
		return nil
	}
	top := func(path string) string { // what is withdrawn with all in it
		for above, _, _ := cutLast(path); c.departed[above] != nil && !f.has(above); above, _, _ = cutLast(above) {
			path = above
		}
		return path
	}
	for path := range c.departed {
		if f.has(path) || observed[top(path)] == nil {
			delete(c.departed, path)
		}
	}
	before := make(map[string][]string)
	for path, was := range c.departed {
		needs := was.needs[path]
		if above, _, _ := cutLast(path); was.nodes[above] != nil &&
			was.nodes[above].Strategy == supervisor.RestForOne && was.after[path] != "" {
			needs = append(slices.Clone(needs), was.after[path])
		}
		for _, need := range needs {
			if at, first := top(need), top(path); c.departed[need] != nil && at != first {
				before[at] = append(before[at], first)
			}
		}
	}
	return before
}
