package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/supervisor"
)

// Act carries out an action on a node; see the route Act.
func (m *Manager) Act(ctx context.Context, path string, action Action) (Acted, error) {
	none, by := Acted{Already: []string{}}, api.OrderOf(ctx)
	path = m.Tree.Fleet().Resolve(path)
	if m.Tree.State() != supervisor.Running {
		return none, fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	if path == m.Tree.Root().Path() {
		return m.actOnProject(ctx, action)
	}
	sup, id, err := m.Tree.Locate(path)
	if err != nil {
		return none, err
	}
	if err := m.checkSuspended(path, action); err != nil {
		return none, err
	}
	if action.starts() {
		if err := m.MayStart(path); err != nil {
			return none, err
		}
	}
	before, _ := sup.Child(id)
	if w, _ := m.Reconcile.Waits(path); w.For != "" && before.State == supervisor.Waiting &&
		(action == Start || action == Resume) {
		return none, fmt.Errorf("%w: %s waits for %s and starts on its own then; see: coppice explain %s",
			api.ErrConflict, path, w.For, path)
	}
	already := Acted{Already: []string{path}}
	if !m.Triggers.Has(path) && !m.Drains.Has(path) && isAlready(before, action) {
		return already, nil
	}
	if action == Resume && !m.Triggers.Has(path) && journal.StoppedByHand(before.State, before.Reason) {
		return none, fmt.Errorf("%w: %s was stopped by hand, not suspended; start it with: coppice start %[2]s",
			api.ErrConflict, path)
	}
	drainCanceled := false
	if d, ok := m.Drains.Of(path); action.starts() && (!ok || !d.Renew || action == Restart) {
		drainCanceled = m.Drains.Cancel(ctx, path)
	}
	if action != Reset {
		m.Restarts.Drop(path, 0, fmt.Sprintf("%s was asked for %s", action, asker(by)))
	}
	done, err := m.actOn(ctx, sup, id, action)
	switch {
	case errors.Is(err, supervisor.ErrRunning) && drainCanceled:
		done = Acted{Changed: 1}
	case errors.Is(err, supervisor.ErrRunning):
		return already, nil // meanwhile
	case err != nil:
		return done, Error(path, err)
	case done.Changed == 0:
		return done, nil
	}
	actor := "user"
	if by != "" {
		actor = order.PathOf(by)
	}
	m.Log.Append(event.Event{
		Type: eventTypes[action], Path: path, Actor: actor,
		Message: fmt.Sprintf("%s: %s asked for %s", path, action, asker(by)),
	})
	m.waitDurable(ctx, path, before, action)
	return done, nil
}

// asker names the origin of an action: a person, or the order with that name.
func asker(order string) string {
	if order == "" {
		return "by hand"
	}
	return "by order " + order
}

// isAlready reports whether a child is already in the state that an action leads to.
func isAlready(i supervisor.ChildInfo, action Action) bool {
	switch action {
	case Start, Resume:
		return i.Sub == nil && (i.State == supervisor.Running || i.State == supervisor.Starting)
	case Stop:
		return journal.StoppedByHand(i.State, i.Reason)
	case Suspend: // a resume does not start a completed agent, either
		return i.State == supervisor.Suspended ||
			i.State == supervisor.Stopped && reconcile.PhaseOf(&i) == reconcile.Completed
	}
	return false
}

// resumes reports whether resuming the supervisor of a child includes the child: it, or something
// below it, may be suspended.
func (m *Manager) resumes(path string, i supervisor.ChildInfo) bool {
	return i.Sub != nil || journal.Suspended(i.State, i.Reason) || m.Triggers.HeldBy(path) == supervisor.ReasonSuspended
}

// eventTypes are the types of the events that log requested actions.
var eventTypes = map[Action]event.Type{
	Start: event.AgentStartRequested, Stop: event.AgentStopRequested, Restart: event.AgentRestartRequested,
	Reset: event.AgentReset, Suspend: event.AgentSuspended, Resume: event.AgentResumed,
}

// actBelow carries out an action on all children of a supervisor in parallel.
func (m *Manager) actBelow(ctx context.Context, sup *supervisor.Supervisor, action Action) (all Acted, err error) {
	children, err := sup.Children()
	if err != nil {
		return all, Error(sup.Path(), err)
	}
	if action == Resume {
		self, err := sup.SaveSelf()
		if err == nil && self.Paused && api.OrderOf(ctx) != "" {
			return all, heldForOrder(sup.Path(), supervisor.Paused)
		}
		if err == nil {
			err = sup.Resume()
		}
		if err != nil {
			return all, Error(sup.Path(), err)
		}
		if self.Paused {
			all.Changed++
		}
	}
	children = append(children, m.forgottenBelow(sup.Path(), children)...)
	errs, done := make([]error, len(children)), make([]Acted, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		path := sup.Path() + "/" + child.ID
		if action == Resume && !m.resumes(path, child) {
			continue
		}
		if action, ok := m.actionBelow(path, child, action); ok {
			wg.Go(func() {
				done[i], errs[i] = m.Act(ctx, path, action)
				if action == Stop && m.Once && errors.Is(errs[i], api.ErrStopping) {
					// All other agents have ended, which ends the run with this one.
					done[i], errs[i] = Acted{Already: []string{path}}, nil
				}
			})
		}
	}
	wg.Wait()
	for _, d := range done {
		all.Changed += d.Changed
		all.Already = append(all.Already, d.Already...)
	}
	if action == Resume { // the answer names the supervisor, not its children
		all.Already = nil
		if all.Changed == 0 {
			all.Already = []string{sup.Path()}
		}
	}
	return all, errors.Join(errs...)
}

// actOn carries out an action on a child.
func (m *Manager) actOn(ctx context.Context, sup *supervisor.Supervisor, id string, action Action) (Acted, error) {
	one := Acted{Changed: 1}
	path := sup.Path() + "/" + id
	if m.Triggers.Has(path) {
		return one, m.actOnTriggered(ctx, path, action)
	}
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) && (action == Start || action == Restart) {
		if spec, known := m.Tree.Fleet().Specs[path]; known {
			spec.Saved = &supervisor.Saved{Incarnation: m.Tree.LastIncarnation(path)}
			_, err = sup.StartChild(ctx, spec)
		}
		return one, err
	}
	if err != nil {
		return one, err
	}
	if info.Sub != nil && (action == Reset || action == Resume || action == Start &&
		info.State == supervisor.Running) {
		return m.actBelow(ctx, info.Sub, action)
	}
	if by := api.OrderOf(ctx); action.starts() && by != "" {
		return one, m.startForOrder(ctx, sup, info, by)
	}
	return one, m.actOnChild(ctx, sup, info, action)
}

// actOnChild carries out an action on an agent, or on a supervisor as a whole.
func (m *Manager) actOnChild(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo,
	action Action) error {
	switch action {
	case Stop, Suspend:
		return m.suspendChild(ctx, sup, info, stopReason(action))
	case Start, Resume:
		return StartChild(ctx, sup, info)
	case Restart:
		return finish(ctx, func(ctx context.Context) error {
			defer sup.Hold()() // otherwise the run ends if no other agent runs
			if err := m.suspendChild(ctx, sup, info, stopReason(action)); err != nil {
				return err
			}
			_, err := sup.RestartChild(ctx, info.ID)
			return err
		})
	case Reset:
		return sup.Reset(info.ID)
	}
	return fmt.Errorf("%w: unknown action %q, expected start, stop, restart, reset, suspend or resume",
		api.ErrInvalid, action)
}

// startForOrder starts or restarts an agent or a supervisor within its limit. Orders repeat, above
// all those that fire on the events of such a start.
func (m *Manager) startForOrder(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo,
	name string) error {
	path := sup.Path() + "/" + info.ID
	if isHeldByLimit(info.State) {
		return heldForOrder(path, info.State)
	}
	err := finish(ctx, func(ctx context.Context) error {
		if info.Sub != nil { // its agents stop in order
			if err := m.suspendChild(ctx, sup, info, stopReason(Restart)); err != nil {
				return err
			}
		}
		_, err := sup.RestartCounted(ctx, info.ID, &agent.TooOftenError{Order: name})
		return err
	})
	return countedForOrder(path, err)
}

// finish calls do with a context that does not end with ctx, and returns when ctx ends. So an action
// is completed even if its client disconnects.
func finish(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- do(context.WithoutCancel(ctx)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func isHeldByLimit(s supervisor.State) bool {
	return s == supervisor.Quarantined || s == supervisor.GivenUp || s == supervisor.Paused
}

// heldForOrder returns the error for an order that starts a node that a limit holds.
func heldForOrder(path string, s supervisor.State) error {
	return fmt.Errorf("%w: %s is held by its limit (%v), which an order does not lift; see: coppice explain %s",
		api.ErrConflict, path, s, path)
}

// countedForOrder returns the error for an order whose start counts for a limit.
func countedForOrder(path string, err error) error {
	if limit, ok := errors.AsType[*supervisor.LimitError](err); ok {
		return fmt.Errorf("%w: %s was %w, and is held by its limit (%v); see: coppice explain %s",
			api.ErrConflict, path, limit.Exit.Err, limit.Limit, path)
	}
	return err
}

// StartChild starts a child that is down, or that a delay or a limit holds back.
func StartChild(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo) error {
	if info.State == supervisor.Restarting && info.Reason == supervisor.ReasonRetry {
		see := "quota"
		if _, ok := errors.AsType[*budget.WaitError](info.LastExit.Err); ok {
			see = "budget"
		}
		return fmt.Errorf("%w: %s waits: %w; see: coppice %s ls", api.ErrConflict, info.ID, info.LastExit.Err, see)
	}
	switch info.State {
	case supervisor.Restarting, supervisor.Quarantined, supervisor.GivenUp:
		return sup.Reset(info.ID)
	case supervisor.Paused:
		return sup.Resume()
	case supervisor.Running, supervisor.Starting:
		return fmt.Errorf("%s: %w", info.ID, supervisor.ErrRunning)
	}
	_, err := sup.RestartChild(ctx, info.ID)
	return err
}
