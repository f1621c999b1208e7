package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/liveness"
)

// surplusReason is the reason of drains by pools.
const surplusReason = "its pool does not want it any more"

// askToFinish asks an instance that its pool does not want any more to finish.
// The pool sees to what becomes of that.
func (c *Controller) askToFinish(ctx context.Context, w *crew, path string, incarnation uint64, timeout time.Duration, reason string) {
	defer poke(w.wake)
	now := time.Now()
	d := &drain{Path: path, Incarnation: incarnation, Reason: reason, Until: now.Add(timeout), SavedAt: now, Pool: true}
	d.open(timeout)
	c.mu.Lock()
	if c.drains[path] != nil { // somebody was faster
		c.mu.Unlock()
		return
	}
	c.drains[path] = d
	c.mu.Unlock()
	c.dropRestart(path, 0, "it is asked to finish")
	if c.vital(path) == nil { // it has ended since
		d.close(d.ended)
	}
	err := c.record(event.Event{
		Type: event.AgentDraining, Path: path, Incarnation: incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s is asked to finish within %s: %s", path, liveness.Brief(timeout), reason),
	}.With(map[string]any{"reason": reason, "until": d.Until}), d.op())
	if err != nil { // the next controller finds an instance too many and asks it again
		c.opts.Logger.Warn("a drain may not survive this controller", "path", path, "error", err)
	}
	c.nudge(ctx, path, drainText)
}

// letGoOn ends the drain of an instance that its pool wants again.
func (c *Controller) letGoOn(w *crew, path string) {
	defer poke(w.wake)
	d := c.drainOf(path)
	if d == nil || !d.Pool || !d.settle() {
		return
	}
	c.forgetDrain(d, event.Event{Type: event.AgentDrainEnded, Actor: "controller", Message: path + " need not finish any more: its pool wants it again"})
	close(d.canceled)
	d.err = errNotDrained(path)
	d.close(d.done)
}

// dismissDrained notes that an instance is being stopped, and why.
func (c *Controller) dismissDrained(path, how string) {
	if d := c.drainOf(path); d != nil && d.Pool {
		d.settleAs(how)
	}
}

// concludeDrain ends the drain of an agent that is gone.
func (c *Controller) concludeDrain(ctx context.Context, path string) {
	d := c.drainOf(path)
	if d == nil || !d.Pool {
		c.endDrain(ctx, path)
		return
	}
	d.settleAs("is not in the file any more")
	c.forgetDrain(d, event.Event{
		Type: event.AgentDrained, Actor: "controller", Message: fmt.Sprintf("%s %s, and is stopped", path, d.decided()),
	}.With(map[string]any{"finished": d.hasFinished()}))
	d.close(d.done)
}
