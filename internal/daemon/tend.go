package daemon

import (
	"context"
	"fmt"
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
	trouble := make(map[event.Type]string) // what was said last
	look := func(what event.Type, message string, tend func() (bool, error)) {
		again, err := tend()
		if again && err != nil { // not all of it
			c.restored(event.StoreDamaged, "", err.Error())
			return
		}
		switch {
		case err != nil && err.Error() != trouble[what] && ctx.Err() == nil:
			c.opts.Logger.Error("cannot restore what was removed", "error", err)
			trouble[what] = err.Error()
		case err == nil:
			delete(trouble, what)
		}
		if again {
			c.restored(what, "", message)
		}
	}
	damaged := make(map[string]bool) // records that were named
	for {
		select {
		case <-ctx.Done():
			return
		case <-listener.Restored():
			c.restored(event.SocketRestored, "", "the socket was deleted and has been created again")
			continue
		case <-tick.C:
		}
		look(event.LockRestored, "the lock file was removed and has been created again", lock.Tend)
		if s, ok := c.opts.Store.(interface {
			Tend(context.Context) (bool, error)
		}); ok {
			look(event.StoreRestored, "the files of the store were removed, replaced or cut; all that "+
				"was in it is in a new one",
				func() (bool, error) { return s.Tend(ctx) })
		}
		for _, key := range c.damagedRecords() {
			if !damaged[key] {
				damaged[key] = true
				c.restored(event.StoreDamaged, "", damagedMessage(key))
			}
		}
		if c.opts.Jobs != nil {
			c.opts.Jobs.Tend() // whose slots are not those of agents: no event tells of them
		}
		for _, r := range c.opts.Runtimes {
			if r, ok := r.(interface{ Tend() []string }); ok {
				for _, path := range r.Tend() {
					c.restored(event.SlotRestored, path, path+": the files of its slot were removed; its shim has "+
						"created them again; the earlier output is lost")
				}
			}
		}
	}
}

// damagedRecords are the keys of records that the store has found to be damaged.
func (c *Controller) damagedRecords() []string {
	if s, ok := c.opts.Store.(interface{ Damaged() []string }); ok {
		return s.Damaged()
	}
	return nil
}

func damagedMessage(key string) string {
	return fmt.Sprintf("record %s is damaged and is left out; coppice down and coppice doctor --fix remove "+
		"it, a backup may have it", key)
}

func (c *Controller) restored(what event.Type, path, message string) {
	e := event.Event{Type: what, Path: path, Actor: "controller", Message: message}
	if path != "" {
		e.Incarnation = c.last(path)
	}
	c.opts.Logger.Warn(message)
	c.log.Append(e)
}
