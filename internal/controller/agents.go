package controller

import (
	"context"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/access"
	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// newAgents returns the agents of a controller.
func newAgents(c *Controller) *agent.Manager {
	return agent.New(agent.Options{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Runtimes: c.opts.Runtimes,
		Fleet: func() agent.Fleet { return agentFleet{c.fleet()} },
		Once:  c.opts.Once, Started: c.started, Socket: c.opts.Socket, Admit: c.opts.Admit, Output: c.opts.Output,
		Listeners: c.listeners(), Drains: c.drains, Starts: c.journal, Prepare: c.prepare,
		Environ: c.environ, Files: c.triggers.LaunchFiles, Classify: quotaAgents{c}.exit, Stopper: c.stopper,
	})
}

// listeners are the features that follow the incarnations of agents.
func (c *Controller) listeners() []agent.Listener {
	return []agent.Listener{
		{ // budgets and quotas: before anything is done for an incarnation
			Begin: func(ctx context.Context, i agent.Incarnation) error {
				if i.Adopted {
					return nil
				}
				if err := c.budgets.Admit(i.Path, i.Incarnation); err != nil {
					c.quotas.Gone(i.Path) // it does not wait for its account
					return err
				}
				return c.quotas.Admit(ctx, i.Path)
			},
			Run: func(who token.Caller, p *agent.Process, _ *spec.Agent) {
				c.budgets.Begin(who.Path, who.Incarnation, p.Session().Observe().StartedAt, p.Abort)
			},
			End: func(who token.Caller, _ agent.Exit) { c.budgets.Ended(who.Path, who.Incarnation) },
		},
		{ // pipelines
			Launch: c.workers.Launch,
		},
		{ // calls
			Launch: c.calls.Launch,
			Run:    func(who token.Caller, p *agent.Process, a *spec.Agent) { c.calls.Follow(who, p, a) },
			End:    func(who token.Caller, _ agent.Exit) { c.calls.Forget(who) },
		},
		{ // mail
			Begin: func(_ context.Context, i agent.Incarnation) error {
				if !i.Adopted {
					c.mail.Start(i.Path, i.Incarnation)
				}
				return nil
			},
		},
		{ // health
			Begin: func(_ context.Context, i agent.Incarnation) error {
				c.health.Add(i.Caller)
				return nil
			},
			Run:  func(who token.Caller, p *agent.Process, a *spec.Agent) { c.health.Start(who, p, a) },
			Fail: func(who token.Caller) { c.health.Incarnation(who).SetFailed() },
			End:  func(who token.Caller, _ agent.Exit) { c.health.End(who) },
		},
		{ // hashes
			Launch: c.hashes.Begin,
			Adopt:  c.hashes.Adopt,
		},
		{ // questions
			End: func(who token.Caller, _ agent.Exit) { c.questions.Forward(who.Path) },
		},
		{ // beliefs
			Begin: func(ctx context.Context, i agent.Incarnation) error {
				return c.beliefs.Start(ctx, i.Caller, i.Token)
			},
			End: func(who token.Caller, _ agent.Exit) { c.beliefs.Store.End(who.Path, who.Incarnation) },
		},
		{ // drains
			End: func(who token.Caller, _ agent.Exit) { c.drains.Exited(who.Path, who.Incarnation) },
		},
		{ // outcomes
			Begin: func(_ context.Context, i agent.Incarnation) error {
				c.claims.Begin(i.Path, i.Token)
				return nil
			},
		},
		{ // tasks
			Begin: func(_ context.Context, i agent.Incarnation) error {
				c.work.Start(i.Caller, i.Token)
				return nil
			},
			End: func(who token.Caller, exit agent.Exit) {
				why := c.budgets.ParkTask(c.background.ctx, who.Path, who.Incarnation)
				c.work.Exited(who, exit, why)
			},
		},
	}
}

// prepare completes what an incarnation of an agent runs.
func (c *Controller) prepare(a *spec.Agent, l *runtime.Launch) {
	l.Env = append(l.Env, pool.InstanceEnviron(a.Instance)...)
	if a.Aide != nil {
		argv, env := c.triggers.Launch(a.Aide)
		l.Argv, l.Env = argv, append(l.Env, env...)
	}
	if a.Pipeline != nil {
		l.Argv = c.workers.Argv(l.Path)
	}
}

// startOf returns the Start function of an agent.
func (c *Controller) startOf(
	a *spec.Agent, signal syscall.Signal,
) (func(context.Context) (supervisor.Process, error), error) {
	start, err := c.agents.Start(a, signal)
	if err != nil {
		return nil, err
	}
	if a.Aide != nil {
		start = c.triggers.Start(start)
	}
	return c.quotas.Start(start), nil
}

// agentFleet implements agent.Fleet.
type agentFleet struct{ f *fleet.Fleet }

func (a agentFleet) Agents() map[string]*spec.Agent { return a.f.Agents }
func (a agentFleet) Suspends(path string) bool      { return a.f.Suspended(path) }
func (a agentFleet) Declared(path string, s *spec.Agent) spec.Hash {
	return a.f.Declared(path, s)
}
func (a agentFleet) Logs() spec.Logs { return a.f.File.Logs }

// environOf returns the environment of a command of an agent that belongs to no incarnation.
func environOf(as agent.Identity, path string, a *spec.Agent) []string {
	env, _ := as.Environ(a, proc.Self{Agent: path})
	return env.Vars
}

// newAccess returns what tells agents from people.
func newAccess(c *Controller) *access.Access {
	return access.New(access.Options{
		Runtimes: c.agents.Runtimes(), Jobs: c.opts.Jobs, Socket: c.opts.Socket, Log: c.log,
		Token: c.agents.Caller, Request: c.health.Request, Last: c.tree.LastIncarnation,
		Has: func(path string) bool { return c.fleet().Agents[path] != nil },
	})
}

// below reports whether a path is that of a node, or of something in it.
func below(path, node string) bool { return path == node || strings.HasPrefix(path, node+"/") }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
