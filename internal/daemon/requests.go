package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	// minRestartAge is how long an incarnation runs at least before a restart that it asks for: one
	// that always asks at once must not spin.
	minRestartAge = time.Second
)

// newRestarts returns the restarts that agents of a controller have asked for.
func newRestarts(c *Controller) *agent.Restarts {
	return agent.NewRestarts(agent.RestartOptions{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Record: c.journal.Write, Restart: c.restartNow,
		Changed: c.loop.Enqueue,
	})
}

// RequestRestart is part of api.Selves.
func (c *Controller) RequestRestart(ctx context.Context, who token.Caller, reason string) error {
	if c.triggers.Has(who.Path) {
		return fmt.Errorf("%w: a run of %s is not restarted, it ends, and its Aidefile says what follows",
			api.ErrConflict, who.Path)
	}
	if c.drains.Has(who.Path) {
		return fmt.Errorf("%w: %s is asked to finish, and is stopped then", api.ErrConflict, who.Path)
	}
	if c.health.Incarnation(who).Failed() {
		return fmt.Errorf("%w: %s has failed; what comes next is decided as after every failure", api.ErrConflict,
			who.Path)
	}
	return c.restarts.Request(ctx, who, reason)
}

var errNotStarted = errors.New("it could not be started; what comes next is decided as after every failure")

// restartNow restarts the agent of an incarnation as a restart by hand does, unless that has a
// successor or no longer asks for it.
func (c *Controller) restartNow(ctx context.Context, who token.Caller) error {
	if i := c.health.Incarnation(who); i != nil {
		var ended <-chan struct{} // nil before it runs
		if s := c.live(who.Path); s != nil && s.Observe().Incarnation == who.Incarnation {
			ended = s.Done()
		}
		select {
		case <-time.After(time.Until(i.Since().Add(minRestartAge))):
		case <-ended:
		case <-i.Ended():
		case <-ctx.Done():
			return ctx.Err()
		}
		if i.Failed() && !i.Ready() {
			return errNotStarted
		}
	}
	sup, id, err := c.locate(who.Path)
	if err != nil {
		return err
	}
	info, err := sup.Child(id)
	if err != nil {
		return err
	}
	_, asks := c.restarts.Of(who)
	if !asks || info.Incarnation > who.Incarnation || c.opts.Once && info.StartedAt.After(c.started) {
		return agent.ErrOvertaken
	}
	if _, err = sup.ReplaceCounted(ctx, id, supervisor.ReasonRequested); err == nil {
		c.waitDurable(ctx, who.Path, info, api.Restart) // before the request is forgotten
	}
	return err
}

// Hook is part of api.Selves.
func (c *Controller) Hook(ctx context.Context, who token.Caller, key string) ([]api.Notice, error) {
	var all []api.Notice
	c.health.Incarnation(who).SetSeesDrains()
	if d, ok := c.drains.Of(who.Path); ok && d.Incarnation == who.Incarnation {
		all = append(all, d.Notice())
	}
	if _, asked := c.restarts.Of(who); asked {
		all = append(all, api.Notice{Kind: "restart", Text: "You are about to be restarted, as you have asked."})
	}
	messages, err := c.mail.Deliver(ctx, who.Path, who.Incarnation, key)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		n := api.Notice{Kind: "mail", ID: m.ID, Text: fmt.Sprintf("From %s: %s. Run \"coppice agent "+
			"mail read %s\" to read it.", m.From, m.Subject, m.ID)}
		if m.Question != "" {
			n.Kind = "answer"
		}
		all = append(all, n)
	}
	tasks, err := c.work.Notices(ctx, who)
	if err != nil {
		return nil, err
	}
	return append(all, tasks...), nil
}
