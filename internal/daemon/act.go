package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// Act is part of api.Service.
func (c *Controller) Act(ctx context.Context, path string, action api.Action) error {
	path = c.full(path)
	if c.rootState() != supervisor.Running {
		return fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	if path == c.root.Path() {
		return c.actOnProject(ctx, action)
	}
	sup, id, err := c.locate(path)
	if err != nil {
		return err
	}
	if err := c.mayStart(path, action); err != nil {
		return err
	}
	if err := c.surplus(path, action); err != nil {
		return err
	}
	before, _ := sup.Child(id)
	if w, _ := c.patrols.waits(path); w.For != "" && before.State == supervisor.Waiting && (action == api.Start || action == api.Resume) {
		return fmt.Errorf("%w: %s waits for %s and is started by itself then; see: coppice explain %s", api.ErrConflict, path, w.For, path)
	}
	goesOn := false
	switch action {
	case api.Start, api.Resume, api.Restart:
		if d := c.drainOf(path); d == nil || !d.renews() || action == api.Restart { // else it is to go on as it is
			goesOn = c.endDrain(ctx, path)
		}
	}
	if action != api.Reset {
		c.dropRestart(path, 0, string(action)+" was asked for by hand")
	}
	if err := c.actOn(ctx, sup, id, action); err != nil && !(goesOn && errors.Is(err, supervisor.ErrRunning)) {
		return notFound(path, err)
	}
	c.log.Append(event.Event{
		Type: requested(action), Path: path, Actor: "user", Message: fmt.Sprintf("%s: %s asked for by hand", path, action),
	})
	c.settle(ctx, path, before, action)
	return nil
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
	}
	return event.Type("agent." + string(action) + "_requested")
}

// actBelow does something to all children of a supervisor at the same time.
func (c *Controller) actBelow(ctx context.Context, sup *supervisor.Supervisor, action api.Action) error {
	children, err := sup.Children()
	if err != nil {
		return notFound(sup.Path(), err)
	}
	if action == api.Resume {
		if err := sup.Resume(); err != nil {
			return notFound(sup.Path(), err)
		}
	}
	children = append(children, c.forgottenAides(sup.Path(), children)...)
	errs := make([]error, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		path := sup.Path() + "/" + child.ID
		action, ok := c.aideAmong(path, child, action)
		if ok {
			wg.Go(func() { errs[i] = c.Act(ctx, path, action) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// startBelow starts what is down below a supervisor that runs; ErrRunning if nothing is.
func (c *Controller) startBelow(ctx context.Context, sup *supervisor.Supervisor) error {
	err := c.actBelow(ctx, sup, api.Start)
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var failed []error
	for _, e := range all.Unwrap() {
		if !errors.Is(e, supervisor.ErrRunning) {
			failed = append(failed, e)
		}
	}
	if children, e := sup.Children(); e == nil && len(failed) == 0 && len(all.Unwrap()) < len(children) {
		return nil
	}
	return cmp.Or(errors.Join(failed...), err)
}

func (c *Controller) actOn(ctx context.Context, sup *supervisor.Supervisor, id string, action api.Action) error {
	if path := sup.Path() + "/" + id; c.aider(path) != nil {
		return c.actOnAide(ctx, c.aider(path), path, action)
	}
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) && (action == api.Start || action == api.Restart) {
		spec, known := c.fleet().specs[sup.Path()+"/"+id]
		if known {
			spec.Saved = &supervisor.Saved{Incarnation: c.last(sup.Path() + "/" + id)}
			_, err = sup.StartChild(ctx, spec)
		}
		return err
	}
	if err != nil {
		return err
	}
	switch action {
	case api.Stop, api.Suspend:
		return c.suspendChild(ctx, sup, info)
	case api.Start:
		if info.Sub != nil && info.State == supervisor.Running {
			return c.startBelow(ctx, info.Sub)
		}
		return start(ctx, sup, info)
	case api.Resume:
		if info.Sub != nil {
			return info.Sub.Resume()
		}
		if info.State == supervisor.Running {
			return nil
		}
		return start(ctx, sup, info)
	case api.Restart:
		if err := c.suspendChild(ctx, sup, info); err != nil {
			return err
		}
		_, err := sup.RestartChild(ctx, id)
		return err
	case api.Reset:
		if info.Sub != nil {
			return c.actBelow(ctx, info.Sub, action)
		}
		return sup.Reset(id)
	}
	return fmt.Errorf("%w: unknown action %q, expected start, stop, restart, reset, suspend or resume", api.ErrInvalid, action)
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
