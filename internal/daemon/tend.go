package daemon

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
)

// tendEvery is how often the controller looks whether its files are still there.
const tendEvery = 2 * time.Second

// tend sees to it that what somebody removes under a running fleet comes back.
func (c *Controller) tend(ctx context.Context, lock *Lock, listener *api.Listener) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	trouble := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-listener.Restored():
			c.restored(event.SocketRestored, "", "the socket was deleted and has been made anew")
			continue
		case <-tick.C:
		}
		switch again, err := lock.Tend(); {
		case again:
			c.restored(event.LockRestored, "", "the lock file was removed and has been made anew")
			trouble = ""
		case err != nil && err.Error() != trouble:
			trouble = err.Error()
			c.opts.Logger.Error("the lock file was removed and cannot be made anew", "error", err)
		}
		for _, r := range c.opts.Runtimes {
			r, ok := r.(interface{ Tend() []string })
			if !ok {
				continue
			}
			for _, path := range r.Tend() {
				c.restored(event.SlotRestored, path, path+": the files of its slot were removed; its shim has made them anew, the earlier output is lost")
			}
		}
	}
}

func (c *Controller) restored(what event.Type, path, message string) {
	e := event.Event{Type: what, Path: path, Actor: "controller", Message: message}
	if path != "" {
		e.Incarnation = c.last(path)
	}
	c.opts.Logger.Warn(message)
	c.log.Append(e)
}
