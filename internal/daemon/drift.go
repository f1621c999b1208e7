package daemon

import (
	"context"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/supervisor"
)

// replaced restarts an agent that has drifted, or drains it first.
func (c *Controller) replaced(ctx context.Context, a reconcile.Action) {
	sup, id, err := c.locate(a.Path)
	if err != nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil || info.State != supervisor.Running || info.Incarnation != a.Incarnation {
		return // the next pass observes its new state
	}
	if c.hasExited(a.Path, a.Incarnation) {
		return // its exit counts as what it was, not as a stop
	}
	e := event.Event{
		Type: event.AgentDrifted, Path: a.Path, Incarnation: info.Incarnation, Actor: "controller",
		Message: a.Path + " is started again: " + a.Reason,
	}
	data := map[string]any{"reason": a.Reason, "fields": a.Fields}
	if a.Kind == reconcile.Drain {
		e.Message = a.Path + " is asked to finish, and started again then: " + a.Reason
		data["within_seconds"] = a.Within.Seconds()
	}
	c.log.Append(e.With(data))
	if a.Kind == reconcile.Drain {
		c.loop.NoteRestart(a.Path, reconcile.RestartsLater)
		c.drains.Renew(a.Path, info.Incarnation, a.Reason, a.Within, a.Counted)
		return
	}
	c.loop.NoteRestart(a.Path, reconcile.Restarted)
	err = renew(ctx, sup, id, a.Counted)
	c.leftBehind(ctx, a.Path)
	c.logUnexpected("cannot restart an agent that has drifted", a.Path, err)
}

// renew restarts an agent whose configuration or files have changed.
func renew(ctx context.Context, sup *supervisor.Supervisor, id string, counted bool) (err error) {
	if counted {
		_, err = sup.ReplaceCounted(ctx, id, supervisor.ReasonChanged)
	} else {
		_, err = sup.ReplaceChild(ctx, id, supervisor.ReasonChanged)
	}
	return err
}

// release starts an agent that is held and that has changed since it failed.
func (c *Controller) release(a reconcile.Action) {
	sup, id, err := c.locate(a.Path)
	if err != nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil || !reconcile.IsHeld(info.State) || info.Incarnation != a.Incarnation {
		return // the next pass observes its new state
	}
	e := event.Event{
		Type: event.AgentDrifted, Path: a.Path, Incarnation: info.Incarnation, Actor: "controller",
		Message: a.Path + " is started again, with fresh counters: " + a.Reason,
	}
	c.log.Append(e.With(map[string]any{"reason": a.Reason, "fields": a.Fields}))
	c.loop.NoteRestart(a.Path, reconcile.Restarted)
	c.logUnexpected("cannot release a held agent", a.Path, sup.Reset(id))
}

// leftBehind removes the slots of an agent in runtimes that it has moved away from.
func (c *Controller) leftBehind(ctx context.Context, path string) {
	home := c.agents.Home(path)
	for _, place := range c.opts.Runtimes {
		if home != nil && place != home {
			c.agents.Remove(ctx, place, path)
		}
	}
}
