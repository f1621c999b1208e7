package daemon

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// event writes what a supervisor says, with the record that follows from it. It
// is called from one goroutine.
func (c *Controller) event(e supervisor.Event) {
	<-c.launched
	if _, up := e.(supervisor.SupervisorStarted); up && e.Header().Supervisor == c.root.Path() {
		c.background.run(func(ctx context.Context) { c.up(ctx, e) })
		return
	}
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(e)
	}
	c.loop.Enqueue()
	defer c.pools.Wake(e.Header().Path())
	h := e.Header()
	if Nested(e) {
		return
	}
	if h.ID != "" && c.agents.Detaches(h.Path()) {
		return // the controller ends, not the agent: the next one finds the record as it is
	}
	entry, _ := Translate(e)
	r, ops := c.records(e)
	c.log.Append(entry, ops...)
	if r == nil {
		return
	}
	c.journal.note(h.Path(), r)
	switch e.(type) {
	case supervisor.ChildStarted, supervisor.ChildStartFailed:
		c.journal.started(h.Path(), h.Incarnation, c.ahead(h.Path()))
	}
}

// up tells that the root has started: when what the patrol starts has been, too.
func (c *Controller) up(ctx context.Context, e supervisor.Event) {
	c.loop.Enqueue()
	if c.loop.AwaitIdle(ctx) != nil {
		return // it has ended before
	}
	c.runningTold(ctx)
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(e)
	}
	entry, _ := Translate(e)
	entry.Time = time.Now()
	c.log.Append(entry)
}

// runningTold waits until the log has been told of everything that runs, which is
// on its way there; not longer than for a moment.
func (c *Controller) runningTold(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nodes := make(map[string]uint64)
	for path, o := range c.observer.Observe(c.fleet()) {
		if o.Phase == reconcile.Running {
			nodes[path] = o.Incarnation
		}
	}
	c.journal.running(ctx, nodes)
}

// patience is how long a start waits for the log at most.
const patience = time.Second

// rememberer is a runtime whose slots remember more than one end before the last.
type rememberer interface {
	Remembers(path string) int
}

// ahead is how many starts of an agent the log may not have yet when it is
// started once more.
func (c *Controller) ahead(path string) int {
	if c.fleet().Agents[path] == nil { // a supervisor
		return 1
	}
	if r, ok := c.agents.Home(path).(rememberer); ok {
		return max(1, r.Remembers(path))
	}
	return 1
}

// caughtUp waits until the log has the start of an incarnation some way before
// this one. What a controller that is killed has not written is told by the
// next one, as far as the slot remembers: an agent that ends faster than the
// disk writes must not get further ahead than that. With incarnation n started
// and that of n-k in the log, the ends of n-k to n-1 may have to be told, which
// are k.
func (c *Controller) caughtUp(ctx context.Context, path string, incarnation uint64) {
	ahead := uint64(c.ahead(path))
	if incarnation <= ahead {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.journal.startWritten(ctx, path, incarnation-ahead)
}

// records returns the record of a child that follows from an event about it, nil
// if none does, and what is written with the event. Both follow from the event
// alone: see supervisor.Snapshot.
func (c *Controller) records(e supervisor.Event) (*agent.Record, []store.Op) {
	h := e.Header()
	switch e.(type) {
	case supervisor.ChildReturned, supervisor.ChildMisbehaved: // which change nothing
		return nil, nil
	case supervisor.LimitLifted:
		if h.ID == "" {
			return nil, []store.Op{selfOp(h.Supervisor, h.After.Self)}
		}
	}
	if h.ID == "" {
		return nil, nil
	}
	r, ops := c.recordOf(h)
	return r, append(ops, c.triggers.Observe(e)...)
}

// recordOf returns the record of a child after an event about it, and how it is written.
func (c *Controller) recordOf(h supervisor.EventHeader) (*agent.Record, []store.Op) {
	path, saved := h.Path(), h.After.Child
	switch {
	case !c.fleet().Has(path) && (!h.After.Listed || saved.State == supervisor.Stopped): // withdrawn
		r := c.applier.LastRecord(path, h.Incarnation)
		return r, []store.Op{r.Op()}
	case !h.After.Listed: // temporary; the next controller must know that it has ended
		saved = supervisor.Saved{Incarnation: h.Incarnation, State: supervisor.Stopped,
			Reason: supervisor.ReasonTemporary}
	}
	succeeded := saved.Incarnation > h.Incarnation
	r := agent.NewRecord(path, h.Incarnation, succeeded || !isAlive(saved.State), saved)
	if succeeded { // the event of its successor follows
		r.State, r.StartedAt = supervisor.Waiting.String(), time.Time{}
	}
	if !r.Ended {
		r.Hash = c.hashes.Saved(path, h.Incarnation)
	}
	return r, []store.Op{r.Op(), selfOp(h.Supervisor, h.After.Self)}
}

// isAlive reports whether a child in this state has an incarnation.
func isAlive(s supervisor.State) bool {
	return s == supervisor.Running || s == supervisor.Starting || s == supervisor.Stopping
}

// selfOp writes the part of a supervisor's record that is its own. It has a key
// of its own, as its parent writes the other part.
func selfOp(path string, self supervisor.SavedSelf) store.Op {
	r := &agent.Record{
		Path: path, State: supervisor.Running.String(),
		Self: &agent.SelfRecord{Counted: self.Counted, Paused: self.Paused, Probing: self.Probing},
	}
	op := r.Op()
	op.Key += "-self"
	return op
}
