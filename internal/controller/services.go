package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/notice"
	"github.com/coppice-dev/coppice/internal/pipeline/workers"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/runtime/runfiles"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/condition"
	"github.com/coppice-dev/coppice/internal/task/service"
	"github.com/coppice-dev/coppice/internal/token"
)

// This file puts the features together: what each of them needs of the
// controller, and which part of the API it answers.

// openFeatures opens the mailboxes, and the questions, whose answers may come by mail.
func (c *Controller) openFeatures(ctx context.Context) (err error) {
	c.mail, err = mail.Open(ctx, mail.Options{
		Store: c.opts.Store, Logger: c.opts.Logger, Log: c.log, Agents: directory{c},
		// What others have written has no place in what may be typed into a terminal.
		Arrived: func(m mail.Message) {
			c.background.run(func(ctx context.Context) {
				c.health.Nudge(ctx, m.To, fmt.Sprintf("coppice: there is mail for you, %s. Please run: "+
					"coppice agent mail read %[1]s", m.ID))
			})
		},
		Handled: func(ctx context.Context, all []mail.Message) error {
			return c.questions.TakeMailed(ctx, all) // an answer that was read counts as taken
		},
	})
	if err != nil {
		return err
	}
	c.questions, err = question.OpenService(ctx, question.Options{
		Store: c.opts.Store, Logger: c.opts.Logger, Log: c.log, Mail: c.mail, IsAgent: directory{c}.HasAgent,
		Await: c.health.Await,
		Asked: func(q question.Question) { c.health.QuestionsChanged(q.From) },
		Ended: func(q question.Question, _ bool) {
			c.health.QuestionsChanged(q.From)
			wake(c.lasting.look)
		},
	})
	if err != nil {
		return err
	}
	return errors.Join(c.quotas.Load(ctx), c.budgets.Load(ctx))
}

// openWork reads the tasks.
func (c *Controller) openWork(ctx context.Context) (err error) {
	c.work, err = service.Open(ctx, service.Options{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Tree: directory{c},
		Patrol:  func() spec.Patrol { return c.fleet().Patrol },
		Claimed: c.budgets.Look, Asked: func() { wake(c.lasting.look) }, Background: c.background.run,
		Nudge: c.health.Nudge, Await: directory{c}.awaitTask, Used: c.costs.OfAttempts,
		Blocked: condition.Options{
			Checks: c.checks, Environ: orderHost{c}.environ, Suspended: c.control.IsProjectSuspended,
			Dir:      func() string { return filepath.Dir(c.fleet().Config.Path) },
			Services: func() []spec.Service { return c.fleet().Tree.Services },
		},
	})
	c.workers.Tasks = c.work
	return err
}

// newWorkers returns the workers of the pipelines of a controller.
func newWorkers(c *Controller) *workers.Workers {
	return &workers.Workers{
		Logger: c.opts.Logger, Dir: runfiles.Dir(c.opts.Work).Of, Tree: func() *spec.Tree { return c.fleet().File },
		Fleet: func() *spec.Tree { return c.fleet().Tree },
		Agent: func(path string) *spec.Agent { return c.fleet().Agents[path] },
		Nodes: func(ctx context.Context, path string) (all []workers.Worker, err error) {
			nodes, err := c.status.Nodes(ctx, path)
			for _, n := range nodes {
				if c.fleet().Agents[n.Path] != nil {
					all = append(all, workers.Worker{Path: n.Path, State: n.State, Running: n.PID != 0,
						Incarnation: n.Incarnation, StartedAt: n.StartedAt})
				}
			}
			return all, err
		},
	}
}

// awaitTask waits for a task in the name of an agent, until the agent is asked to finish.
func (d directory) awaitTask(ctx context.Context, who token.Caller, wait func(context.Context) error) error {
	err := d.c.health.Await(ctx, who, func(ctx context.Context) error {
		ctx, stop := d.c.health.UntilDrained(ctx, who)
		defer stop()
		return wait(ctx)
	})
	if errors.Is(err, health.ErrDraining) {
		return task.ErrNothing
	}
	return err
}

// directory is the part of a controller by which features look up nodes.
type directory struct{ c *Controller }

func (d directory) Project() string                    { return d.c.fleet().Tree.Root.Name }
func (d directory) Full(path string) string            { return d.c.fleet().Resolve(path) }
func (d directory) NotFound(path string) error         { return d.c.fleet().NotFound(path) }
func (d directory) HasAgent(path string) bool          { return d.c.fleet().Agents[path] != nil }
func (d directory) LastIncarnation(path string) uint64 { return d.c.tree.LastIncarnation(path) }
func (d directory) HasSupervisor(path string) bool     { return d.c.fleet().Nodes[path] != nil }
func (d directory) StartOrder() []string               { return d.c.fleet().Order }
func (d directory) Agents() []string                   { return slices.Sorted(maps.Keys(d.c.fleet().Agents)) }

// Pools returns the pools whose tasks an agent does.
func (d directory) Pools(path string) []string {
	a := d.c.fleet().Agents[path]
	if a == nil {
		return nil
	}
	return a.TaskPools(path)
}

// isOrder reports whether a path in events is that of an order, and not of a node.
func (d directory) isOrder(path string) bool {
	first, _, _ := strings.Cut(strings.Trim(path, "/"), "/")
	return first == "orders" && !d.c.fleet().Has(d.Project()+"/"+first)
}

// Server returns a server of everything that the controller answers.
func (c *Controller) Server() *api.Server {
	s := api.NewServer(c.access, c.opts.Logger)
	c.control.Register(s)
	c.stopper.Register(s)
	c.status.Register(s)
	c.output.Register(s)
	feed.Handle(s, c.Events)
	c.beliefs.Register(s)
	c.drains.Register(s)
	c.health.Register(s)
	c.reloader.Register(s)
	c.patrol.Register(s)
	c.claims.Register(s)
	c.mail.Register(s)
	c.work.Register(s)
	c.questions.Register(s)
	c.triggers.Register(s)
	c.workers.Register(s)
	c.quotas.Register(s)
	c.budgets.Register(s)
	c.costs.Register(s)
	c.orders.Register(s)
	c.access.Register(s)
	c.notify.Register(s)
	c.usage.Register(s)
	notice.Register(s, c.drains.Notices, c.control.Notices, c.mail.Notices, c.work.Notices)
	return s
}

// newCosts returns the ledger of what the agents of a controller use.
func newCosts(c *Controller) *cost.Ledger {
	return cost.New(cost.Options{
		Store: c.opts.Store, Logger: c.opts.Logger, Go: c.background.run,
		Counted: func(ctx context.Context, path string, incarnation uint64) {
			c.budgets.Counted(ctx, path, incarnation)
		},
		Added: c.metrics.Used, Event: c.log.Op,
		Task: func(path string, incarnation uint64) (string, int) { return c.work.Attempt(path, incarnation) },
		Owner: func(path string) (pool, account string) {
			if a := c.fleet().Agents[path]; a != nil {
				pool = a.Instance.Pool
			}
			return pool, c.quotas.AccountOf(path)
		},
	})
}
