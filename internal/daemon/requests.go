package daemon

import (
	"context"
	"fmt"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// newRestarts returns the restarts that agents of a controller have asked for.
func newRestarts(c *Controller) *agent.Restarts {
	return agent.NewRestarts(agent.RestartOptions{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Record: c.journal.Write,
		Restart: func(ctx context.Context, who token.Caller) error { return c.control.RestartRequested(ctx, who) },
		Changed: c.loop.Enqueue,
	})
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
