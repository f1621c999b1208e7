package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// surplusReason is the reason of drains by pools.
const surplusReason = "its pool does not want it any more"

// askToFinish asks an instance that its pool does not want any more to finish.
// The pool sees to what becomes of that.
func (c *Controller) askToFinish(w *crew, path string, incarnation uint64, timeout time.Duration, reason string) {
	defer poke(w.wake)
	c.dropRestart(path, 0, "it is asked to finish")
	c.beginDrain(&drain{Path: path, Incarnation: incarnation, Reason: reason, Pool: true}, timeout, "controller")
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
