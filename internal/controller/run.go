package controller

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
)

// Run does what a Controller does while it answers requests, until ctx ends: it repairs what was removed, reads the
// files of the project again when they change, serves metrics and notifies people.
func (c *Controller) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { (&repairs{Controller: c}).run(ctx) })
	if c.metrics != nil {
		working.Go(func() { c.metrics.Serve(ctx, c.opts.Tree.Metrics.Listen) })
		working.Go(func() {
			if c.Started(ctx) == nil {
				c.metrics.Started()
			}
		})
	}
	if !c.opts.Once && !c.opts.Sandbox { // a person has started what runs once
		c.background.run(c.runNotify)
		c.background.run(c.deadman.Run)
	}
	if !c.opts.Once {
		go c.reloader.Run(ctx, c.opts.Watch, c.opts.Hurry) // which may hang with the file system
	}
	c.health.RunWrapperProbes(ctx, healthFleet{c}.interval)
}

// Exports returns what receives the exports of command lines.
func (c *Controller) Exports() *otlp.Receiver { return otlp.New(c.agents.Caller, c.calls.Exported) }

// Alive returns an error if the tree of supervisors does not answer.
func (c *Controller) Alive() error {
	_, err := c.root.Count()
	return err
}

// End waits until the tree has ended, and ends it when ctx ends. It reports whether a person has asked for the end.
func (c *Controller) End(ctx context.Context) (asked bool) {
	select {
	case <-ctx.Done():
		c.stop(context.Cause(ctx))
		<-c.Ended()
	case <-c.Ended():
	}
	return c.asked.Load() // also meanwhile
}

// stop ends the controller for a reason that says whether the agents go on.
func (c *Controller) stop(cause error) {
	c.opts.Logger.Info("stopping", "because", cause)
	lost, kept := errors.Is(cause, election.ErrLost), errors.Is(cause, node.ErrKeeping)
	switch places := c.opts.Places; {
	case c.asked.Load() || lost || kept || places == nil:
	case errors.Is(cause, node.ErrDraining):
		c.agents.DetachSome(machines{c}.staysBehind) // the next controller takes them over
	case places.HasAway():
		c.agents.DetachSome(machines{c}.isAway)
	}
	c.fenced.Store(lost)
	c.Stop(lost || kept)
}

// IsDetached reports whether the agents go on without the controller.
func (c *Controller) IsDetached() bool { return c.agents.IsDetaching() }

// Before returns the number of the last event that is older than this controller.
func (c *Controller) Before() uint64 { return c.before }

// Started waits until every agent has been started once, or its start has failed. That includes the
// instances that the first checks of the pools ask for.
func (c *Controller) Started(ctx context.Context) error {
	if err := c.root.Started(ctx); err != nil {
		return err
	}
	c.loop.Enqueue() // another pass sees agents whose dependencies have become ready
	if err := c.loop.AwaitIdle(ctx); err != nil {
		return err
	}
	if err := c.pools.AwaitFirst(ctx); err != nil {
		return err
	}
	return c.loop.AwaitIdle(ctx)
}

// Ended returns a channel that is closed when the tree has ended, by Stop or by its own limit, and
// all events are written.
func (c *Controller) Ended() <-chan struct{} { return c.ended }

// Err returns the error that ended the tree, nil if it was stopped. It is valid after Ended.
func (c *Controller) Err() error {
	if e := c.root.Exit(); !e.Clean() {
		return e.Err
	}
	return nil
}

// Stop ends the controller. It stops all agents in the order of package shutdown; if keep is set,
// they keep running instead. It returns at once. The second call kills the agents.
func (c *Controller) Stop(keep bool) {
	first := false
	c.downOnce.Do(func() {
		first = true
		if keep {
			c.agents.Detach()
		}
		close(c.down)
		go c.closeOrders() // while the agents stop
	})
	switch {
	case first && keep:
		c.root.Stop()
	case first:
		go c.stopper.StopAll(c.root)
	case !c.agents.IsDetaching():
		c.stopper.Hurry()
		c.root.Kill()
	}
}

// wait waits for the end of the tree, and then closes the controller.
func (c *Controller) wait() {
	err := c.root.Wait()
	c.closeOrders()
	if !c.agents.IsDetaching() {
		c.stopper.AwaitStarts(leftTime)
		c.stopper.AwaitStopped(leftTime)
	}
	c.background.end()
	if !c.agents.IsDetaching() {
		c.agents.StopUnadopted()
	}
	entry := event.Event{Type: event.ControllerStopped, Actor: "controller", Message: "controller stopped"}
	if err != nil {
		entry.Message += ": " + err.Error()
	}
	var ops []store.Op
	if !c.agents.IsKeeping() {
		ops = append(ops, agent.MarkOrderly(c.opts.Once))
	}
	c.questions.Close()
	c.work.Close()
	c.log.Append(entry, ops...)
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if c.fenced.Load() { // it takes no more events, and commands would see what is no longer so
		cancel()
	}
	if err := c.log.Close(ctx); err != nil {
		c.opts.Logger.Error("the last events were not written", "error", err)
	}
	close(c.ended)
}

// Asked is closed when somebody has asked for the end by Down or Stop.
func (c *Controller) Asked() <-chan struct{} { return c.down }

// Events yields the events of a query, whose path may leave out the beginning.
func (c *Controller) Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error] {
	if q.Path != "" && !(directory{c}).isOrder(q.Path) {
		q.Path = c.fleet().Resolve(q.Path)
	}
	return c.log.Events(ctx, q)
}
