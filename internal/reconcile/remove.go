package reconcile

import (
	"context"
	"errors"
	"path"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/hash"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Remove stops a node that is no longer in the fleet, with all below it, and forgets it.
func (a *Applier) Remove(ctx context.Context, at string) {
	sup := a.Find(path.Dir(at))
	if sup == nil {
		return
	}
	id := path.Base(at)
	info, err := sup.Child(id)
	if err != nil {
		return
	}
	agents := agentsBelow(nil, at, info)
	for _, agent := range agents {
		a.Ending(agent)
		a.saveState(agent)
	}
	if err := a.Stop(ctx, at, info, func(ctx context.Context) error {
		return deleteChild(ctx, sup, id, a.removalReason(at))
	}); err != nil {
		a.LogUnexpected("cannot stop what is no longer declared", at, err)
		return // the next pass tries again
	}
	defer a.Removals.Ended(at)
	for _, agent := range agents {
		a.Removed(ctx, agent)
		f := a.Fleet()
		var last []store.Op
		if f.Agents[agent] == nil { // else its slot is used again
			a.Discard(ctx, agent)
			last = append(last, a.LastRecord(agent, a.Last(agent)).Op(),
				store.Op{Kind: store.Delete, Key: hash.Key(agent)})
		}
		why := " is no longer in the file, and has been removed"
		if f.Nodes[at] == nil && a.IsPool(path.Dir(at)) {
			why = " is no longer needed by its pool, and has been removed"
		}
		a.Log.Append(event.Event{
			Type: event.AgentRemoved, Path: agent, Incarnation: a.Last(agent), Actor: "controller",
			Message: agent + why,
		}, last...)
	}
}

// HasChild reports whether a supervisor has a child at a path.
func (a *Applier) HasChild(at string) bool {
	sup := a.Find(path.Dir(at))
	if sup == nil {
		return false
	}
	_, err := sup.Child(path.Base(at))
	return err == nil
}

// removalReason returns the reason for removing a node.
func (a *Applier) removalReason(at string) supervisor.Reason {
	f, above := a.Fleet(), path.Dir(at)
	switch {
	case f.Has(at): // as something else
		return supervisor.ReasonChanged
	case f.Nodes[above] != nil && a.IsPool(above) && !f.Retired(above):
		return supervisor.ReasonSurplus
	}
	return supervisor.ReasonRemoved
}

// deleteChild stops a child and takes it from the list of its supervisor.
func deleteChild(ctx context.Context, sup *supervisor.Supervisor, id string, why supervisor.Reason) error {
	for {
		err := sup.TerminateChild(ctx, id, why)
		if err == nil {
			err = sup.DeleteChild(id)
		}
		switch {
		case errors.Is(err, supervisor.ErrRunning), errors.Is(err, supervisor.ErrRestarting): // started meanwhile
		case errors.Is(err, supervisor.ErrNotFound):
			return nil
		default:
			return err
		}
	}
}

// agentsBelow appends the agents at and below a child.
func agentsBelow(all []string, at string, info supervisor.ChildInfo) []string {
	if info.Type == supervisor.Worker {
		return append(all, at)
	}
	if info.Sub == nil {
		return all
	}
	children, err := info.Sub.Children()
	if err != nil {
		return all
	}
	for _, child := range children {
		all = agentsBelow(all, at+"/"+child.ID, child)
	}
	return all
}

// saveState keeps the state of an agent before it is removed.
func (a *Applier) saveState(at string) {
	sup := a.Find(path.Dir(at))
	if sup == nil {
		return
	}
	if saved, _, err := sup.Save(path.Base(at)); err == nil {
		a.KeepState(at, saved)
	}
}

// KeepState keeps the last state of a removed agent, for when it is declared again.
func (a *Applier) KeepState(at string, last supervisor.Saved) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removed[at] = last
}

// lastState returns the last state of a removed agent.
func (a *Applier) lastState(at string) (supervisor.Saved, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	saved, ok := a.removed[at]
	return saved, ok
}

// LastRecord returns the last record of a removed agent. When it is declared again it starts,
// unless a person or a limit has decided otherwise.
func (a *Applier) LastRecord(at string, incarnation uint64) *agent.Record {
	saved, ok := a.lastState(at)
	if !ok {
		return &agent.Record{Path: at, Incarnation: incarnation, Ended: true, State: supervisor.Waiting.String()}
	}
	r := agent.NewRecord(at, max(incarnation, saved.Incarnation), true, saved)
	if !r.IsKept() {
		r.State, r.Reason = supervisor.Waiting.String(), ""
	}
	return r
}
