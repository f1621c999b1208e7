package daemon

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/supervisor"
)

// noted is what the log was told of a node last.
type noted struct {
	state       string
	incarnation uint64
	mark        uint64 // of the log, behind it
	record      *record
}

// note remembers what an event has written. It is called with that event.
func (c *Controller) note(path string, r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted[path] = noted{r.State, r.Incarnation, c.log.Mark(), r}
}

// settle waits until what was done to a node by hand is on the disk: it has to
// hold even if the controller is killed once it has answered. Not longer than
// for a moment, though: people are served while the disk is full, too.
func (c *Controller) settle(ctx context.Context, path string, before supervisor.ChildInfo, action api.Action) {
	suspended := supervisor.Suspended.String()
	var done func(noted) bool
	switch action {
	case api.Stop, api.Suspend:
		why := stopReason(action)
		if before.State == supervisor.Suspended && before.Reason == why {
			return
		}
		done = func(n noted) bool {
			return n.state == suspended && (n.record == nil || n.record.Reason == why.String())
		}
	case api.Restart:
		done = func(n noted) bool { return n.state != suspended && n.incarnation > before.Incarnation }
	default:
		if before.State != supervisor.Suspended {
			return
		}
		done = func(n noted) bool { return n.state != suspended }
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := time.Millisecond; ; pause *= 2 {
		c.mu.Lock()
		n, ok := c.noted[path]
		c.mu.Unlock()
		if ok && done(n) {
			c.log.SyncTo(ctx, n.mark)
			return
		}
		select { // the event is on its way to the log
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
