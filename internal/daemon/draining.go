package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/liveness"
	"github.com/coppice-dev/coppice/internal/patrol"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file lets agents finish and stops them then, on behalf of people and of the patrol; for pools see pooldrain.go.

// Drain is part of api.Drains.
func (c *Controller) Drain(ctx context.Context, req api.DrainRequest) error {
	path := c.full(req.Path)
	if c.fleet().agents[path] == nil && c.fleet().nodes[path] == nil {
		return c.noNode(path)
	}
	timeout := time.Duration(req.Timeout * float64(time.Second))
	if timeout == 0 {
		timeout = api.DefaultDrain
	}
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for agent := range c.fleet().agents {
		if agent == path || strings.HasPrefix(agent, path+"/") {
			wg.Go(func() {
				err := c.drain(ctx, agent, timeout, req)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// drain drains one agent. One that does not live is stopped at once.
func (c *Controller) drain(ctx context.Context, path string, timeout time.Duration, req api.DrainRequest) error {
	sup, id, err := c.locate(path)
	if err != nil {
		return err
	}
	info, err := c.child(sup, id)
	if err != nil {
		return notFound(path, err)
	}
	if d := c.drainOf(path); d != nil {
		d.forGood()
		return d.wait(ctx)
	}
	if req.Again { // what became of the drain is known, if its end is
		if info.State == supervisor.Suspended {
			return nil
		}
		return errNotDrained(path)
	}
	if info.State != supervisor.Running && info.State != supervisor.Starting {
		_, err := c.Act(ctx, path, api.Stop)
		return err
	}
	reason := brief(req.Reason)
	c.dropRestart(path, 0, "it is asked to finish")
	return c.beginDrain(&drain{Path: path, Incarnation: info.Incarnation, Reason: reason}, timeout, "user").wait(ctx)
}

// drainToRenew asks an incarnation to finish, to be started again then.
func (c *Controller) drainToRenew(a patrol.Action, incarnation uint64) {
	c.beginDrain(&drain{Path: a.Path, Incarnation: incarnation, Reason: brief(a.Reason), Renew: true, Counted: a.Counted}, a.Within, "controller")
}

// beginDrain begins a drain, unless there is one, and returns the one that there
// is then. What becomes of it in the end is its pool's, if it is one of a pool.
func (c *Controller) beginDrain(d *drain, timeout time.Duration, actor string) *drain {
	path, reason, now := d.Path, d.Reason, time.Now()
	d.Until, d.SavedAt = now.Add(timeout), now
	d.open(timeout)
	c.mu.Lock()
	if before := c.drains[path]; before != nil {
		c.mu.Unlock()
		if !d.Renew && !d.Pool {
			before.forGood()
		}
		return before
	}
	c.drains[path] = d
	c.mu.Unlock()
	if v := c.vital(path); v != nil {
		v.drains()
	} else { // it has ended since
		d.close(d.ended)
	}
	message := fmt.Sprintf("%s is asked to finish within %s", path, liveness.Brief(timeout))
	if reason != "" {
		message += ": " + reason
	}
	err := c.record(event.Event{
		Type: event.AgentDraining, Path: path, Incarnation: d.Incarnation, Actor: actor, Message: message,
	}.With(map[string]any{"reason": reason, "until": d.Until}), d.op())
	if err != nil { // as a stop by hand, it does not depend on the store; a pool asks again
		c.opts.Logger.Warn("a drain may not survive this controller", "path", path, "error", err)
	}
	if !d.Pool {
		c.background.run(func(ctx context.Context) { c.seeDrained(ctx, d) })
	}
	c.background.run(func(ctx context.Context) { c.nudge(ctx, path, drainText) })
	return d
}

// seeDrained stops an agent when it has finished, or its time is over. If the
// controller ends before, the next one goes on.
func (c *Controller) seeDrained(ctx context.Context, d *drain) {
	defer d.close(d.done)
	d.err = fmt.Errorf("%s: %w", d.Path, api.ErrStopping)
	t := time.NewTimer(d.left())
	defer t.Stop()
	how := "has finished"
	select {
	case <-d.finished:
	case <-d.ended:
		how = "has ended"
	case <-t.C:
		how = "did not finish in time"
	case <-d.canceled:
	case <-ctx.Done():
		return
	}
	if !d.settle() {
		<-d.canceled
		d.err = errNotDrained(d.Path)
		return
	}
	if d.renews() {
		c.seeRenewed(ctx, d, how)
		return
	}
	var stopped []store.Op
	for {
		var err error
		if stopped, err = c.suspend(ctx, d.Path); err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, api.ErrStopping) {
			return
		}
		select { // above all because its supervisor is being restarted
		case <-time.After(drainPause):
		case <-ctx.Done():
			return
		}
	}
	c.forgetDrain(d, event.Event{
		Type: event.AgentDrained, Actor: "controller", Message: fmt.Sprintf("%s %s, and is stopped", d.Path, how),
	}.With(map[string]any{"finished": d.hasFinished()}), stopped...)
	d.err = nil
}

// seeRenewed ends a drain by starting the agent again. If that is not possible
// now, the drain is over all the same, and the patrol sees to it.
func (c *Controller) seeRenewed(ctx context.Context, d *drain, how string) {
	defer c.patrols.kick()
	c.forgetDrain(d, event.Event{
		Type: event.AgentDrainEnded, Actor: "controller", Message: fmt.Sprintf("%s %s, and is started again", d.Path, how),
	}.With(map[string]any{"finished": d.hasFinished()}))
	sup, id, err := c.locate(d.Path)
	if err != nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil || info.Incarnation != d.Incarnation {
		return // it was started again already
	}
	err = renew(ctx, sup, id, d.Counted)
	c.leftBehind(ctx, d.Path)
	c.untroubled("an agent that was asked to finish cannot be started again", d.Path, err)
}

// suspend stops an agent as a stop by hand does. It returns what the store has
// to know of that.
func (c *Controller) suspend(ctx context.Context, path string) ([]store.Op, error) {
	sup, id, err := c.locate(path)
	if err != nil {
		return nil, err
	}
	c.takeOverBelow(ctx, path)
	if err = sup.SuspendChild(ctx, id, supervisor.ReasonDrained); err == nil {
		var saved supervisor.Saved
		if saved, _, err = sup.Save(id); err == nil {
			return []store.Op{newRecord(path, saved.Incarnation, true, saved).op()}, nil
		}
	}
	if errors.Is(err, supervisor.ErrNotFound) { // a temporary one, which has ended for good
		return nil, nil
	}
	return nil, notFound(path, err)
}

// forgetDrain ends a drain with an event, and with what follows from its end.
func (c *Controller) forgetDrain(d *drain, e event.Event, ops ...store.Op) {
	e.Path, e.Incarnation = d.Path, d.Incarnation
	c.mu.Lock()
	delete(c.drains, d.Path)
	c.mu.Unlock()
	defer c.patrols.kick()
	if err := c.record(e, append(ops, store.Op{Kind: store.Delete, Key: d.key()})...); err != nil {
		c.opts.Logger.Warn("the end of a drain may not survive this controller", "path", d.Path, "error", err)
	}
}

// endDrain lets an agent go on that was asked to finish, because somebody wants
// it to run. It reports whether it was: one that is being stopped already is not.
func (c *Controller) endDrain(ctx context.Context, path string) (ended bool) {
	d := c.drainOf(path)
	if d == nil {
		return false
	}
	if !d.settle() {
		d.wait(ctx)
		return false
	}
	c.forgetDrain(d, event.Event{Type: event.AgentDrainEnded, Actor: "user", Message: path + " need not finish any more"})
	close(d.canceled)
	return true
}
