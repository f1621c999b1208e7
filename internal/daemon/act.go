package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/supervisor"
)

// Act is part of api.Service.
func (c *Controller) Act(ctx context.Context, path string, action api.Action) (api.Acted, error) {
	none, by := api.Acted{Already: []string{}}, api.OrderOf(ctx)
	path = c.resolvePath(path)
	if c.rootState() != supervisor.Running {
		return none, fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	if path == c.root.Path() {
		return c.actOnProject(ctx, action)
	}
	sup, id, err := c.locate(path)
	if err != nil {
		return none, err
	}
	if err := c.mayStart(path, action); err != nil {
		return none, err
	}
	if action == api.Start || action == api.Resume || action == api.Restart {
		if err := c.pools.MayStart(path); err != nil {
			return none, err
		}
	}
	before, _ := sup.Child(id)
	if w, _ := c.loop.Waits(path); w.For != "" && before.State == supervisor.Waiting &&
		(action == api.Start || action == api.Resume) {
		return none, fmt.Errorf("%w: %s waits for %s and is started by itself then; see: coppice explain %s",
			api.ErrConflict, path, w.For, path)
	}
	already := api.Acted{Already: []string{path}}
	if !c.triggers.Has(path) && !c.drains.Has(path) && isAlready(before, action) {
		return already, nil
	}
	if action == api.Resume && !c.triggers.Has(path) && journal.StoppedByHand(before.State, before.Reason) {
		return none, fmt.Errorf("%w: %s was stopped by hand, not suspended; start it with: coppice start %[2]s",
			api.ErrConflict, path)
	}
	goesOn := false
	switch action {
	case api.Start, api.Resume, api.Restart:
		if d, ok := c.drains.Of(path); !ok || !d.Renew || action == api.Restart { // else it is to go on as it is
			goesOn = c.drains.Cancel(ctx, path)
		}
	}
	if action != api.Reset {
		c.restarts.Drop(path, 0, fmt.Sprintf("%s was asked for %s", action, asker(by)))
	}
	done, err := c.actOn(ctx, sup, id, action)
	switch {
	case errors.Is(err, supervisor.ErrRunning) && goesOn:
		done = api.Acted{Changed: 1}
	case errors.Is(err, supervisor.ErrRunning):
		return already, nil // meanwhile
	case err != nil:
		return done, notFound(path, err)
	case done.Changed == 0:
		return done, nil
	}
	actor := "user"
	if by != "" {
		actor = order.PathOf(by)
	}
	c.log.Append(event.Event{
		Type: requested(action), Path: path, Actor: actor,
		Message: fmt.Sprintf("%s: %s asked for %s", path, action, asker(by)),
	})
	c.waitDurable(ctx, path, before, action)
	return done, nil
}

// asker says who has asked for an action: a person, or an order of that name.
func asker(order string) string {
	if order == "" {
		return "by hand"
	}
	return "by order " + order
}

// isAlready reports whether a child is what an action makes of it.
func isAlready(i supervisor.ChildInfo, action api.Action) bool {
	switch action {
	case api.Start, api.Resume:
		return i.Sub == nil && (i.State == supervisor.Running || i.State == supervisor.Starting)
	case api.Stop:
		return journal.StoppedByHand(i.State, i.Reason)
	case api.Suspend: // what has ended for good is not brought back by a resume, either
		return i.State == supervisor.Suspended ||
			i.State == supervisor.Stopped && reconcile.PhaseOf(&i) == reconcile.Completed
	}
	return false
}

// resumes reports whether the resume of what a child is in is about the child:
// it, or something in it, may be suspended.
func (c *Controller) resumes(path string, i supervisor.ChildInfo) bool {
	if c.triggers.HeldBy(path) == supervisor.ReasonSuspended {
		return true
	}
	return journal.Suspended(i.State, i.Reason) || i.Sub != nil
}

// requested is the event of an action that was asked for by hand.
func requested(action api.Action) event.Type {
	switch action {
	case api.Reset:
		return event.AgentReset
	case api.Suspend:
		return event.AgentSuspended
	case api.Resume:
		return event.AgentResumed
	case api.Start:
		return event.AgentStartRequested
	case api.Restart:
		return event.AgentRestartRequested
	}
	return event.AgentStopRequested
}

// actBelow does something to all children of a supervisor at the same time.
func (c *Controller) actBelow(ctx context.Context, sup *supervisor.Supervisor, action api.Action) (all api.Acted,
	err error) {
	children, err := sup.Children()
	if err != nil {
		return all, notFound(sup.Path(), err)
	}
	if action == api.Resume {
		self, err := sup.SaveSelf()
		if err == nil && self.Paused && api.OrderOf(ctx) != "" {
			return all, heldForOrder(sup.Path(), supervisor.Paused)
		}
		if err == nil {
			err = sup.Resume()
		}
		if err != nil {
			return all, notFound(sup.Path(), err)
		}
		if self.Paused {
			all.Changed++
		}
	}
	children = append(children, c.forgottenBelow(sup.Path(), children)...)
	errs, done := make([]error, len(children)), make([]api.Acted, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		path := sup.Path() + "/" + child.ID
		if action == api.Resume && !c.resumes(path, child) {
			continue
		}
		action, ok := c.actionBelow(path, child, action)
		if ok {
			wg.Go(func() {
				done[i], errs[i] = c.Act(ctx, path, action)
				if action == api.Stop && c.opts.Once && errors.Is(errs[i], api.ErrStopping) {
					// The others have ended, and so the run ends, with all its agents.
					done[i], errs[i] = api.Acted{Already: []string{path}}, nil
				}
			})
		}
	}
	wg.Wait()
	for _, d := range done {
		all.Changed += d.Changed
		all.Already = append(all.Already, d.Already...)
	}
	if action == api.Resume { // of a supervisor, not of each in it
		all.Already = nil
		if all.Changed == 0 {
			all.Already = []string{sup.Path()}
		}
	}
	return all, errors.Join(errs...)
}

// actOn does something to a child.
func (c *Controller) actOn(ctx context.Context, sup *supervisor.Supervisor, id string, action api.Action) (api.Acted,
	error) {
	one := api.Acted{Changed: 1}
	path := sup.Path() + "/" + id
	if c.triggers.Has(path) {
		return one, c.actOnTriggered(ctx, path, action)
	}
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) && (action == api.Start || action == api.Restart) {
		spec, known := c.fleet().Specs[path]
		if known {
			spec.Saved = &supervisor.Saved{Incarnation: c.last(path)}
			_, err = sup.StartChild(ctx, spec)
		}
		return one, err
	}
	if err != nil {
		return one, err
	}
	if info.Sub != nil && (action == api.Reset || action == api.Resume || action == api.Start &&
		info.State == supervisor.Running) {
		return c.actBelow(ctx, info.Sub, action)
	}
	by := api.OrderOf(ctx)
	if starts := action == api.Start || action == api.Resume || action == api.Restart; starts && by != "" {
		return one, c.startForOrder(ctx, sup, info, by)
	}
	return one, c.actOnChild(ctx, sup, info, action)
}

// actOnChild does something to an agent, or to a supervisor as a whole.
func (c *Controller) actOnChild(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo,
	action api.Action) error {
	switch action {
	case api.Stop, api.Suspend:
		return c.suspendChild(ctx, sup, info, stopReason(action))
	case api.Start, api.Resume:
		return start(ctx, sup, info)
	case api.Restart:
		return finish(ctx, func(ctx context.Context) error {
			defer sup.Hold()() // nothing else may run, and the run goes on
			if err := c.suspendChild(ctx, sup, info, stopReason(action)); err != nil {
				return err
			}
			_, err := sup.RestartChild(ctx, info.ID)
			return err
		})
	case api.Reset:
		return sup.Reset(info.ID)
	}
	return fmt.Errorf("%w: unknown action %q, expected start, stop, restart, reset, suspend or resume",
		api.ErrInvalid, action)
}

// startForOrder starts an agent or a supervisor, or starts it again, as its limit allows:
// orders come again and again, above all those that fire on the events of such a start.
func (c *Controller) startForOrder(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo,
	name string) error {
	path := sup.Path() + "/" + info.ID
	if isHeldByLimit(info.State) {
		return heldForOrder(path, info.State)
	}
	err := finish(ctx, func(ctx context.Context) error {
		if info.Sub != nil { // all in it stop in their order
			if err := c.suspendChild(ctx, sup, info, stopReason(api.Restart)); err != nil {
				return err
			}
		}
		_, err := sup.RestartCounted(ctx, info.ID, &agent.TooOftenError{Order: name})
		return err
	})
	return countedForOrder(path, err)
}

// finish calls do, which goes on when ctx ends: what was begun is done, whether its
// client waits for it or not.
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

// heldForOrder is the error of an order that asks for the start of what a limit holds.
func heldForOrder(path string, s supervisor.State) error {
	return fmt.Errorf("%w: %s is held by its limit (%v), which an order does not lift; see: coppice explain %s",
		api.ErrConflict, path, s, path)
}

// countedForOrder is the answer to an order whose start counts for a limit.
func countedForOrder(path string, err error) error {
	var limit *supervisor.LimitError
	if errors.As(err, &limit) {
		return fmt.Errorf("%w: %s was %w, and is held by its limit (%v); see: coppice explain %s",
			api.ErrConflict, path, limit.Exit.Err, limit.Limit, path)
	}
	return err
}

// start starts what is down, and what a delay or a limit holds back.
func start(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo) error {
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
