package controller

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/notify/deadman"
	"github.com/coppice-dev/coppice/internal/notify/deliver"
	"github.com/coppice-dev/coppice/internal/spec"
)

// newNotify returns what notifies people.
func newNotify(c *Controller) *notify.Manager {
	o := deliver.Options{Environ: orderHost{c}.environ}
	if c.checks != nil {
		o.Run = c.checks.Wait
	}
	return notify.New(notify.Options{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Send: deliver.New(o).Send,
		Settings: func() []spec.Notify { return c.fleet().File.Notify }, Project: directory{c}.Project,
	})
}

// newDeadman returns what pings [deadman] of a controller.
func newDeadman(c *Controller) *deadman.Pinger {
	return deadman.New(deadman.Options{
		Settings: func() spec.Deadman { return c.fleet().File.Deadman }, Ping: deliver.Ping, Logger: c.opts.Logger,
		Healthy: func() error { return errors.Join(c.Alive(), c.loop.Stalled()) },
	})
}

// startTime bounds the wait for the first start of all agents: what an earlier daemon has left is not over before.
const startTime = time.Minute

// runNotify notifies people until ctx ends.
func (c *Controller) runNotify(ctx context.Context) {
	starting, cancel := context.WithTimeout(ctx, startTime)
	c.Started(starting)
	cancel()
	client := api.Local(func(s *api.Server) {
		c.status.Register(s)
		c.questions.RegisterReadOnly(s)
		c.work.RegisterReadOnly(s)
		c.costs.Register(s)
		feed.Handle(s, c.Events)
	})
	defer client.Close()
	c.notify.Run(ctx, notify.NewSource(client, c.last, c.started))
}
