package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/supervisor"
)

// Fire is part of api.Fires.
func (c *Controller) Fire(ctx context.Context, req api.FireRequest) error {
	path := c.full(req.Path)
	if _, _, err := c.locate(path); err != nil {
		return err
	}
	o := byHand()
	if req.Task != "" {
		o.Task = req.Task
	}
	if g := c.aider(path); g != nil {
		g.mu.Lock()
		settings := g.agent.Settings
		g.mu.Unlock()
		if _, err := settings.Arguments(map[string]string{"task": o.Task}); err != nil {
			return fmt.Errorf("%w: %w", api.ErrInvalid, err)
		}
	}
	err := c.fire(ctx, path, o)
	if errors.Is(err, trigger.ErrSkipped) {
		return fmt.Errorf("%w: %s: %w", api.ErrConflict, path, err)
	}
	return notFound(path, err)
}

// byHand is the order of a run that a person starts without a task.
func byHand() runner.RunRequest {
	return runner.RunRequest{Trigger: aidefile.Trigger{}.String(), Task: aidefile.Trigger{}.Task()}
}

// actOnAide is actOn for an agent of an Aidefile.
func (c *Controller) actOnAide(ctx context.Context, g *aider, path string, action api.Action) error {
	g.starting.Lock()
	defer g.starting.Unlock()
	p, err := c.place(path, g)
	if err != nil {
		return err
	}
	info, err := p.Supervisor.Child(p.ID)
	forgotten := errors.Is(err, supervisor.ErrNotFound)
	if err != nil && !forgotten {
		return err
	}
	if by := api.OrderOf(ctx); by != "" && !forgotten {
		if done, err := aideForOrder(ctx, p, path, info, action, by); done {
			return err
		}
	}
	switch action {
	case api.Stop, api.Suspend:
		why := stopReason(action)
		if forgotten {
			c.holdAide(path, g, why)
			return nil
		}
		if err := p.Supervisor.SuspendChild(ctx, p.ID, why); !errors.Is(err, supervisor.ErrNotFound) {
			return err
		}
		c.holdAide(path, g, why) // it has ended meanwhile
		return nil
	case api.Start:
		switch {
		case forgotten, info.State == supervisor.Stopped, info.State == supervisor.Suspended:
			c.tellFired(path, g, byHand(), "")
			return p.Begin(ctx)
		case info.State == supervisor.GivenUp:
			return c.afresh(ctx, g, p)
		}
		return start(ctx, p.Supervisor, info)
	case api.Resume:
		g.hold(supervisor.NoReason)
		switch {
		case forgotten, info.State != supervisor.Suspended && info.State != supervisor.Paused:
			return nil
		case info.State == supervisor.Paused:
			return p.Supervisor.Resume()
		}
		_, err := p.Supervisor.RestartChild(ctx, p.ID) // which its gate lets go no further
		return err
	case api.Restart:
		return finish(ctx, func(ctx context.Context) error {
			defer p.Supervisor.Hold()()
			if !forgotten {
				if err := p.Supervisor.SuspendChild(ctx, p.ID, supervisor.ReasonManual); err != nil &&
					!errors.Is(err, supervisor.ErrNotFound) {
					return err
				}
			}
			g.mu.Lock()
			o := g.order // what it was at
			g.mu.Unlock()
			c.tellFired(path, g, o, "")
			return p.Begin(ctx)
		})
	case api.Reset:
		g.mu.Lock()
		g.order.Chain = time.Now() // what its chain has used is forgotten, too
		g.mu.Unlock()
		busy := !forgotten && info.State != supervisor.Stopped && info.State != supervisor.Suspended
		c.resetIssues(path, g, busy)
		switch {
		case forgotten:
			return nil
		case info.State == supervisor.GivenUp:
			return c.afresh(ctx, g, p)
		}
		return p.Supervisor.Reset(p.ID)
	}
	return fmt.Errorf("%w: unknown action %q, expected start, stop, restart, reset, suspend or resume",
		api.ErrInvalid, action)
}

// aideForOrder does what an order asks of an agent of an Aidefile where that is not
// what a person gets: it lifts no limit, and what goes on is started again as its
// limit allows. done is false where there is no difference.
func aideForOrder(ctx context.Context, p trigger.Place, path string, info supervisor.ChildInfo, action api.Action,
	name string) (done bool, err error) {
	switch action {
	case api.Start, api.Resume, api.Restart:
	default:
		return false, nil
	}
	switch {
	case isHeldByLimit(info.State):
		return true, heldForOrder(path, info.State)
	case info.State == supervisor.Restarting, action == api.Restart &&
		(info.State == supervisor.Running || info.State == supervisor.Starting):
		return true, countedForOrder(path, p.Again(ctx, &order.TooOftenError{Order: name}))
	}
	return false, nil
}

// aideAmong is what an action on all below a supervisor means to an agent of an
// Aidefile among them, if anything: to start a fleet is to have it wait for its
// triggers, and what does not run is not restarted.
func (c *Controller) aideAmong(path string, i supervisor.ChildInfo, action api.Action) (api.Action, bool) {
	switch {
	case c.aider(path) == nil:
	case action == api.Start:
		return api.Resume, true
	case action == api.Restart:
		return action, i.State == supervisor.Running || i.State == supervisor.Restarting
	}
	return action, true
}

// forgottenAides are the agents of Aidefiles below a supervisor that it does not
// know any more, as they are temporary and their last run has ended.
func (c *Controller) forgottenAides(sup string, listed []supervisor.ChildInfo) (all []supervisor.ChildInfo) {
	n := c.fleet().nodes[sup]
	if n == nil {
		return nil
	}
	for _, child := range n.Children {
		name := child.Name()
		if isAide(child.Agent) && !slices.ContainsFunc(listed,
			func(i supervisor.ChildInfo) bool { return i.ID == name }) {
			all = append(all, c.forgotten(sup+"/"+name))
		}
	}
	return all
}

// afresh runs an agent that was given up, as if it had never failed.
func (c *Controller) afresh(ctx context.Context, g *aider, p trigger.Place) error {
	g.mu.Lock()
	g.order.Chain = time.Now()
	g.mu.Unlock()
	if err := p.Supervisor.TerminateChild(ctx, p.ID); err != nil {
		return err
	}
	if err := p.Supervisor.Reset(p.ID); err != nil {
		return err
	}
	return p.Begin(ctx)
}

// holdAide stops an agent that is down and that its supervisor has forgotten:
// its triggers start it no more, also after the daemon has ended.
func (c *Controller) holdAide(path string, g *aider, why supervisor.Reason) {
	g.hold(why)
	r := &record{Path: path, Incarnation: c.last(path), Ended: true, State: supervisor.Suspended.String(),
		Reason: why.String()}
	c.log.Append(event.Event{
		Type: event.AgentStopped, Path: path, Incarnation: r.Incarnation, Actor: "user",
		Message: fmt.Sprintf("%s stays down: %v", path, why),
	}, r.op())
	c.journal.note(path, r)
}

// triggered returns what is shown of an agent of an Aidefile next to what all agents have;
// nil for others.
func (c *Controller) triggered(path string, i supervisor.ChildInfo) *status.Triggered {
	g := c.aider(path)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ran := i.Incarnation > 0 || i.LastExit.Kind != supervisor.NoExit || !g.order.Fired.IsZero()
	s := aidefile.StateOf(i.State, ran, g.agent.File.Triggers)
	if g.held != supervisor.NoReason && i.State == supervisor.Stopped {
		s = aidefile.Stopped
	}
	n := api.Aide{State: s.String(), Triggers: []string{}, Failing: g.failing,
		Restart: g.agent.File.Policy.Restart.String(), MaxRestarts: g.agent.File.Policy.MaxRestarts,
		Restarts: i.InWindow}
	if i.Limit.Scope != supervisor.ScopeChild {
		n.Restarts = 0
	}
	n.Spent = s == aidefile.GivenUp && errors.Is(i.LastExit.Err, supervisor.ErrDoNotRestart)
	for _, t := range g.agent.File.Triggers {
		n.Triggers = append(n.Triggers, t.String())
		if t.Kind == aidefile.Cron {
			if at := t.Schedule.Next(time.Now()); n.NextFire == nil || at.Before(*n.NextFire) {
				n.NextFire = &at
			}
		}
	}
	if !g.order.Fired.IsZero() {
		n.Task, n.FiredBy, n.Fired = firstLine(g.order.Task), source(g.order), &g.order.Fired
	}
	t := &status.Triggered{Aide: &n, Held: g.held, Reason: aideReason(n), Evidence: aideEvidence(n)}
	t.Next, t.Hint = aideOutlook(n, path)
	if slices.Contains([]aidefile.State{aidefile.Idle, aidefile.Done, aidefile.GivenUp}, s) {
		t.NextFire = n.NextFire
	}
	return t
}

// aideReason returns why an agent of an Aidefile is in its state, "" where its supervisor
// knows it.
func aideReason(n api.Aide) string {
	waitsFor := "waits for " + strings.Join(n.Triggers, ", ")
	switch n.State {
	case aidefile.Idle.String():
		return waitsFor
	case aidefile.Done.String():
		return "has run, and waits to be started"
	case aidefile.GivenUp.String():
		return "given up " + n.Because() + "; runs once for each trigger, starts over with coppice reset"
	}
	return ""
}

// aideOutlook returns what comes next for an agent of an Aidefile and what a person can do,
// "" where its supervisor knows better.
func aideOutlook(n api.Aide, path string) (next, hint string) {
	fires := ""
	for i, t := range n.Triggers {
		if i > 0 {
			fires += " or "
		}
		switch t {
		case "manual":
			fires += "when a person starts it"
		case "issue":
			fires += "when there is an issue with its label"
		default:
			fires += "at its time (" + t + ")"
		}
	}
	switch n.State {
	case aidefile.Idle.String(), aidefile.Done.String():
		return "it runs " + fires, "to run it now: coppice fire " + path
	case aidefile.GivenUp.String():
		return fmt.Sprintf("it was given up %s, and runs once %s, until it succeeds", n.Because(), fires),
			"at once, with a fresh count: coppice reset " + path
	case aidefile.Stopped.String():
		return "its triggers start no run until it is started or resumed",
			"to wait for its triggers: coppice resume " + path + "; to start it now: coppice start " + path
	}
	return "", ""
}

// aideEvidence returns what is known of the runs of an agent.
func aideEvidence(n api.Aide) (e []string) {
	if f := n.Fired; f != nil {
		e = append(e, fmt.Sprintf("its last run was started by %s, %v ago: %s", n.FiredBy,
			max(0, time.Since(*f)).Round(time.Second), n.Task))
	}
	if n.Failing != "" {
		e = append(e, "its issues cannot be looked at: "+n.Failing)
	}
	return e
}

// asAide is what the patrol sees of an agent of an Aidefile: one that waits for
// its triggers is not missing, and a run in progress is not drifted, as the next
// one begins with what is declared then.
func asAide(o *reconcile.Observed, i *supervisor.ChildInfo) {
	if o.Hash, o.Held = (spec.Hash{}), false; i.State == supervisor.Stopped {
		o.Phase = reconcile.Completed
	}
}
