package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/patrol"
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
	c.patrols.kick()
	defer c.wakeCrew(e.Header().Path())
	entry, ok := translate(e)
	if !ok {
		return
	}
	entry.Actor = "supervisor"
	h := e.Header()
	if h.ID == "" || c.leavesAlone(h.Path()) {
		// The end that keeps agents running is not theirs: as the records
		// are, the next controller finds them.
		if h.ID == "" {
			c.log.Append(entry, c.selfRecord(e)...)
		}
		return
	}
	r, ops := c.records(e)
	c.log.Append(entry, append(ops, c.aideChanged(e)...)...)
	c.journal.note(h.Path(), r)
	switch e.(type) {
	case supervisor.ChildStarted, supervisor.ChildStartFailed:
		c.journal.started(h.Path(), h.Incarnation, c.ahead(h.Path()))
	}
}

// up tells that the root has started: when what the patrol starts has been, too.
func (c *Controller) up(ctx context.Context, e supervisor.Event) {
	c.patrols.kick()
	if c.patrols.settled(ctx) != nil {
		return // it has ended before
	}
	c.runningTold(ctx)
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(e)
	}
	entry, _ := translate(e)
	entry.Time, entry.Actor = time.Now(), "supervisor"
	c.log.Append(entry)
}

// runningTold waits until the log has been told of everything that runs, which is
// on its way there; not longer than for a moment.
func (c *Controller) runningTold(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nodes := make(map[string]uint64)
	for path, o := range c.observed(c.fleet()) {
		if o.Life == patrol.Running {
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
	if c.fleet().agents[path] == nil { // a supervisor
		return 1
	}
	if r, ok := c.home(path).(rememberer); ok {
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

// records are the records that an event about a child changes, and the child's own among them.
func (c *Controller) records(e supervisor.Event) (*record, []store.Op) {
	h := e.Header()
	var saved supervisor.Saved
	var self supervisor.SavedSelf
	err := supervisor.ErrNoSupervisor
	if sup := c.find(h.Supervisor); sup != nil {
		saved, self, err = sup.Save(h.ID)
	}
	forgotten := errors.Is(err, supervisor.ErrNotFound) // temporary; but not by the next controller
	switch {
	case forgotten && !c.fleet().has(h.Path()):
		r := c.lastOf(h.Path(), h.Incarnation)
		return r, []store.Op{r.op()}
	case forgotten:
		saved = supervisor.Saved{Incarnation: h.Incarnation, State: supervisor.Stopped, Reason: supervisor.ReasonTemporary}
	case err != nil:
		r := c.afterwards(e)
		return r, []store.Op{r.op()}
	}
	ended := ends(e)
	r := newRecord(h.Path(), h.Incarnation, ended, saved)
	if ended && saved.Incarnation > h.Incarnation { // its successor's event is on its way
		r.State, r.StartedAt = supervisor.Waiting.String(), time.Time{}
	}
	if !ended {
		r.Hash = c.hashes.keep(h.Path(), h.Incarnation)
	}
	ops := []store.Op{r.op()}
	if forgotten {
		return r, ops
	}
	return r, append(ops, selfOp(h.Supervisor, self))
}

// ends reports whether after an event about a child nothing of it runs.
func ends(e supervisor.Event) bool {
	switch e := e.(type) {
	case supervisor.ChildChanged:
		return e.State != supervisor.Running && e.State != supervisor.Starting && e.State != supervisor.Stopping
	case supervisor.ChildExited, supervisor.ChildStartFailed, supervisor.ChildStopped, supervisor.ChildIgnored,
		supervisor.LimitReached, supervisor.LimitLifted, supervisor.ChildAbandoned:
		return true
	}
	return false
}

// afterwards is the record of a child whose supervisor has ended before it could
// be asked: what was known of it before, and what the event says.
func (c *Controller) afterwards(e supervisor.Event) *record {
	h := e.Header()
	r := record{Path: h.Path()}
	if last, _ := c.journal.of(h.Path()); last.record != nil {
		r = *last.record
	}
	r.Incarnation, r.Ended, r.State, r.Reason = h.Incarnation, ends(e), supervisor.Running.String(), ""
	if changed, is := e.(supervisor.ChildChanged); is {
		r.State, r.Reason = changed.State.String(), changed.Reason.String()
	} else if r.Ended {
		r.State = supervisor.Waiting.String()
	}
	if r.Ended {
		r.Hash = nil
	}
	return &r
}

// selfRecord is the record that an event about a supervisor itself changes.
func (c *Controller) selfRecord(e supervisor.Event) []store.Op {
	if _, lifted := e.(supervisor.LimitLifted); !lifted {
		return nil
	}
	path := e.Header().Supervisor
	if sup := c.find(path); sup != nil {
		if self, err := sup.SaveSelf(); err == nil {
			return []store.Op{selfOp(path, self)}
		}
	}
	return nil
}

// selfOp writes the part of a supervisor's record that is its own. It has a key
// of its own, as its parent writes the other part.
func selfOp(path string, self supervisor.SavedSelf) store.Op {
	r := &record{
		Path: path, State: supervisor.Running.String(),
		Self: &selfRecord{Counted: self.Counted, Paused: self.Paused, Probing: self.Probing},
	}
	op := r.op()
	op.Key += "-self"
	return op
}
