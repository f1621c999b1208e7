package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// triggerAgents are the agents of a controller as their triggers see them.
type triggerAgents struct{ c *Controller }

var _ trigger.Agents = triggerAgents{}

// newTriggers returns the triggers of the agents of a controller.
func newTriggers(c *Controller) *trigger.Manager {
	return trigger.New(trigger.Options{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Agents: triggerAgents{c}, Files: runFiles{c},
		Once: c.opts.Once, Go: c.background.run, Stopping: c.down, LastStatus: lastStatus, Ledger: c.costs,
		LogUnexpected: c.applier.LogUnexpected,
	})
}

// hasAidefile reports whether an agent has an Aidefile. a may be nil.
func hasAidefile(a *spec.Agent) bool { return a != nil && a.Aide != nil }

// saved returns the states in which the nodes of a fleet start: those of the past,
// except that triggers decide about agents with an Aidefile.
func (t triggerAgents) saved(
	f *fleet.Fleet, p *agent.SavedState,
) func(string) (*supervisor.Saved, *supervisor.SavedSelf) {
	return func(path string) (*supervisor.Saved, *supervisor.SavedSelf) {
		s, self := p.Saved(path)
		if s != nil && s.State == supervisor.Restarting && s.Reason == supervisor.ReasonRetry {
			s.NextAt = time.Time{} // its quota is asked again, which knows who waits
		}
		a := f.Agents[path]
		if !hasAidefile(a) {
			return s, self
		}
		before := trigger.Previous{Orderly: p.Orderly}
		if r := p.Records[path]; r != nil {
			before.State, before.NextAt, before.Ended = r.State, r.NextAt, r.Ended
			before.Waits = r.Saved().Reason == supervisor.ReasonRetry
			if r.LastExit != nil {
				exit := r.Saved().LastExit
				before.LastExit = &exit
			}
		}
		return t.c.triggers.Add(path, a.Aide, s, before), self
	}
}

// lastStatus returns the last status of a run that ended on its own; "" if it sent none or
// was ended as unhealthy.
func lastStatus(err error) string {
	var last *agent.AnnotatedError
	var unhealthy *agent.UnhealthyError
	if errors.As(err, &unhealthy) || !errors.As(err, &last) {
		return ""
	}
	return last.Status
}

// FullPath is part of trigger.Agents.
func (a triggerAgents) FullPath(path string) string { return a.c.fleet().Resolve(path) }

// Has is part of trigger.Agents.
func (a triggerAgents) Has(path string) bool { return a.c.fleet().Agents[path] != nil }

// Aidefile is part of trigger.Agents.
func (a triggerAgents) Aidefile(path string) *aidefile.Agent {
	if agent := a.c.fleet().Agents[path]; agent != nil {
		return agent.Aide
	}
	return nil
}

// Locate is part of trigger.Agents.
func (a triggerAgents) Locate(path string) (*supervisor.Supervisor, string, error) {
	return a.c.tree.Locate(path)
}

// ChildSpec is part of trigger.Agents.
func (a triggerAgents) ChildSpec(path string) supervisor.ChildSpec {
	s := a.c.fleet().Specs[path]
	s.Saved = &supervisor.Saved{Incarnation: a.c.tree.LastIncarnation(path)}
	return s
}

// IsAdopting is part of trigger.Agents.
func (a triggerAgents) IsAdopting(path string) bool { return a.c.agents.IsAdopting(path) }

// IsDraining is part of trigger.Agents.
func (a triggerAgents) IsDraining(path string) bool { return a.c.drains.Has(path) }

// Hold is part of trigger.Agents.
func (a triggerAgents) Hold(path string, why supervisor.Reason) {
	r := &agent.Record{Path: path, Incarnation: a.c.tree.LastIncarnation(path), Ended: true,
		State: supervisor.Suspended.String(), Reason: why.String()}
	a.c.log.Append(event.Event{
		Type: event.AgentStopped, Path: path, Incarnation: r.Incarnation, Actor: "user",
		Message: fmt.Sprintf("%s stays down: %v", path, why),
	}, r.Op())
	a.c.journal.Note(path, r)
}

// Release is part of trigger.Agents.
func (a triggerAgents) Release(path string) {
	above, id, _ := cutLast(path)
	sup := a.c.tree.Find(above)
	if sup == nil {
		return
	}
	if _, err := sup.Child(id); !errors.Is(err, supervisor.ErrNotFound) {
		return
	}
	a.c.agents.Forget(path)
	for _, place := range a.c.opts.Runtimes {
		a.c.agents.Remove(a.c.background.ctx, place, path)
	}
}

// runFiles are the files of the last runs of a controller's agents.
type runFiles struct{ c *Controller }

var _ trigger.Files = runFiles{}

// ReadFile is part of trigger.Files.
func (r runFiles) ReadFile(ctx context.Context, path, name string) ([]byte, error) {
	files, ok := r.c.agents.Runtimes()[spec.Proc.String()].(runtime.FileReader)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return files.ReadFile(ctx, path, 0, name)
}

// IsAway is part of trigger.Files.
func (r runFiles) IsAway(path string) bool { return machines(r).isAway(path) }
