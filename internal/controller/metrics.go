package controller

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/metrics"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/usage"
)

// newMetrics returns the metrics of a controller; nil if the file wants none.
func newMetrics(c *Controller) *metrics.Metrics {
	if c.opts.Tree.Metrics.Listen == "" || c.opts.Sandbox {
		return nil
	}
	path := ""
	if p, ok := c.opts.Store.(interface{ Path() string }); ok {
		path = p.Path()
	}
	m := metrics.New(metrics.Options{
		Project: c.opts.Tree.Root.Name, Version: c.opts.Version, StartedAt: c.started,
		MaxAgents: c.opts.Tree.Metrics.MaxAgents, Logger: c.opts.Logger, Stopping: c.down, StorePath: path,
		Follow:    c.log.Follow,
		Nodes:     func() ([]status.Node, error) { return c.status.Nodes(context.Background(), "") },
		Machines:  machines{c}.summaries,
		LastPass:  func() time.Time { return c.loop.LastPass() },
		Stalled:   func() error { return c.loop.Stalled() },
		Root:      c.Alive,
		Writable:  c.writable,
		Writes:    func() store.Writes { return store.WritesOf(c.opts.Store) },
		Questions: func() []question.Question { return c.questions.List("", false) },
		Tasks:     func() map[task.Status]int { return c.work.Counts() },
		Orders:    func() []dispatch.View { return c.orders.List() },
		Quotas:    func() []quota.Info { return c.quotas.All() },
		Budgets:   func() []budget.Info { return c.budgets.Budgets() },
		Usage:     func() map[string]usage.Resources { return c.usage.Last() },
	})
	if s, ok := c.opts.Store.(interface {
		OnCommit(func(took time.Duration))
	}); ok {
		s.OnCommit(m.Written)
	}
	return m
}

// newUsage returns what measures the agents of a controller.
func newUsage(c *Controller) *usage.Service {
	return &usage.Service{
		Nodes: func(ctx context.Context, path string) ([]status.Node, error) { return c.status.Nodes(ctx, path) },
		Host:  c.host, Go: c.background.run,
		Limits: func(path string) spec.Limits {
			if a := c.fleet().Agents[path]; a != nil {
				return a.Limits
			}
			return spec.Limits{}
		},
	}
}
