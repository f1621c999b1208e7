package reconcile

import (
	"context"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// Replace restarts an agent that has drifted or has to move, or drains it first.
func (a *Applier) Replace(ctx context.Context, do Action) {
	sup, id, err := a.Locate(do.Path)
	if err != nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil || info.State != supervisor.Running || info.Incarnation != do.Incarnation {
		return // the next pass observes its new state
	}
	if a.Exited(do.Path, do.Incarnation) {
		return // its exit counts as what it was, not as a stop
	}
	e := event.Event{
		Type: event.AgentDrifted, Path: do.Path, Incarnation: info.Incarnation, Actor: "controller",
		Message: do.Path + " is started again: " + do.Reason,
	}
	data := map[string]any{"reason": do.Reason, "fields": do.Fields}
	if do.Cause == Moved {
		e.Type = event.AgentMoved
		delete(data, "fields")
	}
	if do.Kind == Drain {
		e.Message = do.Path + " is asked to finish, and started again then: " + do.Reason
		data["within_seconds"] = do.Within.Seconds()
	}
	a.Log.Append(e.With(data))
	if do.Kind == Drain {
		a.Note(do.Path, RestartsLater)
		a.Drain(do)
		return
	}
	a.Note(do.Path, Restarted)
	why := supervisor.ReasonChanged
	if do.Cause == Moved {
		why = supervisor.ReasonMoved
	}
	a.LogUnexpected("cannot replace an agent", do.Path, a.Restart(ctx, sup, id, why, do.Counted))
}

// Restart restarts an agent whose declaration or files have changed, or that has to move. With counted, the start
// counts for its limit.
func (a *Applier) Restart(
	ctx context.Context, sup *supervisor.Supervisor, id string, why supervisor.Reason, counted bool,
) error {
	replace := sup.ReplaceChild
	if counted {
		replace = sup.ReplaceCounted
	}
	_, err := replace(ctx, id, why)
	a.Moved(ctx, sup.Path()+"/"+id)
	return err
}

// Release starts an agent that is held and that has changed since it failed.
func (a *Applier) Release(do Action) {
	sup, id, err := a.Locate(do.Path)
	if err != nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil || !IsHeld(info.State) || info.Incarnation != do.Incarnation {
		return // the next pass observes its new state
	}
	e := event.Event{
		Type: event.AgentDrifted, Path: do.Path, Incarnation: info.Incarnation, Actor: "controller",
		Message: do.Path + " is started again, with fresh counters: " + do.Reason,
	}
	a.Log.Append(e.With(map[string]any{"reason": do.Reason, "fields": do.Fields}))
	a.Note(do.Path, Restarted)
	a.LogUnexpected("cannot release a held agent", do.Path, sup.Reset(id))
}
