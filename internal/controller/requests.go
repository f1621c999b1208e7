package controller

import (
	"context"

	"github.com/coppice-dev/coppice/internal/agent"
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
