package controller

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/supervisor"
)

// newJournal returns what writes the events of a controller.
func newJournal(c *Controller) *journal.Journal {
	return journal.New(journal.Options{
		Log: c.log, Wanted: func(path string) bool { return c.fleet().Has(path) }, Removed: c.applier.LastRecord,
		Hash: c.hashes.Saved, Features: c.triggers.Observe,
		Remembers: func(path string) int { return c.agents.Remembers(path) },
	})
}

// event tells all that follow the supervisors what one of them has done. It is called from one
// goroutine.
func (c *Controller) event(e supervisor.Event) {
	<-c.launched
	if _, up := e.(supervisor.SupervisorStarted); up && e.Header().Supervisor == c.root.Path() {
		c.background.run(func(ctx context.Context) { c.up(ctx, e) })
		return
	}
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(e)
	}
	c.loop.EnqueueEvent()
	defer c.pools.Wake(e.Header().Path())
	h := e.Header()
	if journal.Nested(e) {
		return
	}
	if h.ID != "" && c.agents.Keeps(h.Path()) {
		return // the controller ends, not the agent: the next one finds the record as it is
	}
	c.journal.Event(e)
}

// up tells that the root has started: when what the patrol starts has been, too.
func (c *Controller) up(ctx context.Context, e supervisor.Event) {
	c.loop.Enqueue()
	if c.loop.AwaitIdle(ctx) != nil {
		return // it has ended before
	}
	nodes := make(map[string]uint64)
	for path, o := range c.observer.Observe(c.fleet()) {
		if o.Phase == reconcile.Running {
			nodes[path] = o.Incarnation
		}
	}
	c.journal.AwaitRunning(ctx, nodes) // whose events are on their way there
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(e)
	}
	entry, _ := journal.Translate(e)
	entry.Time = time.Now()
	c.log.Append(entry)
}
