package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file is what agents that are to finish say and ask, and what their ends say.

// newsTime is how long the news of an end is held back at most.
const newsTime = 2 * time.Second

// endedDraining notes that an incarnation which was to finish has ended. Its
// supervisor does not know yet, and would start it again: it learns of it when
// it has been asked to stop it.
func (c *Controller) endedDraining(who api.Caller) {
	d := c.drainOf(who.Path)
	if d == nil || d.Incarnation != who.Incarnation {
		return
	}
	d.close(d.ended)
	if d.renews() {
		return // to be started again is what was meant
	}
	<-c.launched
	c.wakeCrew(d.Path)
	sup, id, err := c.locate(who.Path)
	for late := time.Now().Add(newsTime); err == nil && time.Now().Before(late); time.Sleep(time.Millisecond) {
		info, err := sup.Child(id)
		if err != nil || info.State != supervisor.Running && info.State != supervisor.Starting {
			return
		}
	}
}

// Draining is part of api.Drains.
func (c *Controller) Draining(_ context.Context, who api.Caller) (*api.Drain, error) {
	c.looksForDrains(who)
	return c.drainOf(who.Path).shown(), nil
}

// AckDrain is part of api.Drains.
func (c *Controller) AckDrain(_ context.Context, who api.Caller) error {
	d := c.drainOf(who.Path)
	if d == nil || d.Incarnation != who.Incarnation {
		return fmt.Errorf("%w: %s was not asked to finish", api.ErrConflict, who.Path)
	}
	if d.hasFinished() {
		return nil
	}
	said := &drain{Path: d.Path, Incarnation: d.Incarnation, Reason: d.Reason, Until: d.Until, SavedAt: d.SavedAt, Finished: true, Renew: d.renews(), Pool: d.Pool}
	if err := c.record(event.Event{
		Type: event.AgentFinished, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path, Message: who.Path + " says that it has finished",
	}, said.op()); err != nil {
		c.opts.Logger.Warn("that an agent has finished may not survive this controller", "path", who.Path, "error", err)
	}
	d.close(d.finished)
	c.wakeCrew(d.Path)
	return nil
}
