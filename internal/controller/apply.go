package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
)

// RestartError reports a change of the file that takes a restart of the daemon.
type RestartError struct{ What, From, To string }

func (e *RestartError) Error() string {
	return fmt.Sprintf("%s has changed from %s to %s, which takes a restart of the daemon: "+
		"coppice down, then coppice up", e.What, e.From, e.To)
}

// apply makes another tree the desired state, and changes only what differs: it stops removed nodes,
// starts new ones, restarts agents whose running process cannot take the change, and changes
// the rest in place. Stops by hand, quarantines and counters stay with the path. It returns when the
// supervisors have the new specifications; the reconciler then stops, starts and restarts agents.
// After an error nothing has changed.
func (c *Controller) apply(ctx context.Context, tree *spec.Tree, config fleet.Config) (spec.Changes, error) {
	defer c.loop.Freeze()()
	next, changes, retired, err := c.replaceFleet(ctx, tree, config)
	if err != nil {
		return spec.Changes{}, err
	}
	c.orders.Replace(tree.Orders)
	c.triggers.ResetGivenUp(ctx)
	c.applier.Update(ctx, next, changes)
	c.quotas.Apply()
	c.budgets.Apply()
	c.triggers.Apply()
	c.work.ServicesChanged()
	c.notify.Changed()
	c.deadman.Changed()
	c.traces.Changed()
	c.loop.Enqueue()
	changes.Removed = append(changes.Removed, retired...) // as far as the file goes
	return changes, nil
}

// replaceFleet makes the tree of a file the desired state, with the instances of its pools and
// with the pools that it no longer has. It returns the changes, and the pools that it retires. The loop must be frozen.
func (c *Controller) replaceFleet(ctx context.Context, file *spec.Tree, config fleet.Config) (next *fleet.Fleet,
	changes spec.Changes, retired []string, err error) {
	old := c.fleet()
	if err := accepts(old.File, file); err != nil {
		return nil, changes, nil, err
	}
	next = fleet.New(c.pools.Layout(file), config)
	next.File = file
	if err := next.Check(c.agents.Runtimes()); err != nil {
		return nil, changes, nil, err
	}
	known, err := c.applier.SavedState(ctx, next)
	if err != nil {
		return nil, changes, nil, err
	}
	if err := next.Specify(c.building(old, triggerAgents{c}.saved(next, known))); err != nil {
		return nil, changes, nil, err
	}
	c.removals.Replaced(old, next)
	c.applier.SetFleet(next)
	c.log.Retain(c.opts.retention(file))
	c.declareBeliefs(next)
	retired = c.pools.Adjust(file.Pools(), next.Tree.Pools())
	return next, spec.Compare(old.Tree, next.Tree), retired, nil
}

// accepts returns an error for a change that takes a restart of the daemon.
func accepts(old, tree *spec.Tree) error {
	if old.Root.Name != tree.Root.Name {
		return &RestartError{"the name of the project", spec.Quote(old.Root.Name), spec.Quote(tree.Root.Name)}
	}
	if old.Persistence != tree.Persistence {
		where := func(p spec.Persistence) string { return strings.TrimSpace(p.Backend.String() + " " + p.Path) }
		return &RestartError{"where the state is kept", where(old.Persistence), where(tree.Persistence)}
	}
	if old.OTLP != tree.OTLP {
		return &RestartError{"the address of [otlp]", spec.Quote(old.OTLP.Listen), spec.Quote(tree.OTLP.Listen)}
	}
	if old.Metrics != tree.Metrics {
		return &RestartError{"[metrics]", old.Metrics.String(), tree.Metrics.String()}
	}
	return nil
}

// maxParallel bounds the number of agents that are updated at the same time.
const maxParallel = 16

// parallel calls do for all paths, maxParallel at a time, and waits until all calls have returned.
func parallel(paths []string, do func(string)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for _, path := range paths {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(path)
		})
	}
	wg.Wait()
}
