package controller

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/agentcli/limits"
	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/calls"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline/worker"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// newQuotas returns the quotas of a controller.
func newQuotas(c *Controller) *quota.Manager {
	return quota.New(quota.Options{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Agents: quotaAgents{c}, Go: c.background.run,
		Changed: func() { wake(c.lasting.look) }, AskAccount: quotaAgents{c}.ask,
	})
}

// quotaAgents are the agents of a controller as their quotas see them.
type quotaAgents struct{ c *Controller }

// Fleet is part of quota.Agents.
func (q quotaAgents) Fleet() quota.Fleet {
	f := q.c.fleet()
	return quota.Fleet{Agents: f.Agents, Quotas: f.File.Quotas}
}

// Locate is part of quota.Agents.
func (q quotaAgents) Locate(path string) (*supervisor.Supervisor, string, error) {
	return q.c.tree.Locate(path)
}

// Budgeted is part of budget.Agents.
func (q quotaAgents) Budgeted() budget.Fleet {
	f := q.c.fleet()
	return budget.Fleet{Agents: f.Agents, Budgets: f.File.Budgets}
}

// newBudgets returns the budgets of a controller.
func newBudgets(c *Controller) *budget.Manager {
	return budget.New(budget.Options{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Agents: quotaAgents{c}, Go: c.background.run,
		Ledger: c.costs, Tasks: func() budget.Tasks { return c.work }, Account: c.quotas.AccountOf,
		Changed: func() { wake(c.lasting.look) },
	})
}

// overBudget returns the exit of an incarnation that a budget has ended; ok is false for any other.
func (q quotaAgents) overBudget(e agent.End) (exit supervisor.Exit, ok bool) {
	if !e.Asked {
		exit, ok = q.c.budgets.Exit(e.Who.Path, e.Who.Incarnation, e.Exit)
	}
	if ok {
		q.c.quotas.Gone(e.Who.Path)
	}
	return exit, ok
}

// exit is agent.Options.Classify.
func (q quotaAgents) exit(e agent.End) supervisor.Exit {
	path := e.Who.Path
	if e.Agent.ReportsCalls() || e.Agent.CommandLine() != agentcli.Plain {
		// What its calls have used comes after its start in the log, however short it was.
		q.c.journal.AwaitRunning(context.Background(), map[string]uint64{path: e.Who.Incarnation})
	}
	switch {
	case e.Agent.Pipeline != nil:
		return q.workerExit(e)
	case e.Agent.ReportsCalls():
		return q.runExit(e)
	case e.Agent.CommandLine() == agentcli.Plain:
		if q.c.budgets.Covers(path) {
			q.c.costs.Ended(path, e.Who.Incarnation, e.Life, e.Began, e.At)
		}
		q.c.quotas.Gone(path)
		if exit, ok := q.overBudget(e); ok {
			return exit
		}
		return e.Exit
	}
	record, err := q.c.calls.Ended(e)
	if err != nil {
		q.c.opts.Logger.Warn("cannot read the output of a command line", "path", path, "error", err)
	}
	q.c.costs.Ended(path, e.Who.Incarnation, e.Life, e.Began, e.At, record)
	if exit, ok := q.overBudget(e); ok {
		return exit
	}
	// A person may end a session in a terminal whose last call has failed.
	byPerson := calls.HasScreen(e.Agent) && e.Exit.Kind == supervisor.Normal && record.Kind != outcome.Completed
	if err != nil || e.Asked || byPerson {
		q.c.quotas.Gone(path)
		return e.Exit
	}
	if errors.Is(e.Exit.Err, call.ErrLingers) && record.Kind == outcome.Completed {
		e.Exit = supervisor.Exit{Kind: supervisor.Normal}
	}
	return q.c.quotas.After(path, e.Exit, &record)
}

// runExit returns the exit of a run that reports its calls, with what is known of its last call.
func (q quotaAgents) runExit(e agent.End) supervisor.Exit {
	if exit, ok := q.overBudget(e); ok {
		return exit
	}
	process, failed := errors.AsType[*proc.ExitError](e.Exit.Err)
	calls := q.c.reported(e.Who.Path).Calls
	if len(calls) > 0 && !e.Asked && (e.Exit.Kind == supervisor.Normal || failed && process.Signal == 0) {
		last := calls[len(calls)-1]
		if last.OfAccount() == (failed && process.Code == aidefile.Deferred.Code()) {
			return q.c.quotas.After(e.Who.Path, e.Exit, &last)
		}
	}
	q.c.quotas.Gone(e.Who.Path)
	return e.Exit
}

// workerExit returns the exit of a worker of a pipeline. Its calls count for its attempt; one that waited for a task
// has none.
func (q quotaAgents) workerExit(e agent.End) supervisor.Exit {
	all := q.c.workers.Calls(e.Who.Path)
	if !all.Began.IsZero() {
		q.c.costs.Ended(e.Who.Path, e.Who.Incarnation, e.Life, all.Began, e.At, all.Calls...)
	}
	if exit, ok := q.overBudget(e); ok {
		return exit
	}
	process, failed := errors.AsType[*proc.ExitError](e.Exit.Err)
	if n := len(all.Calls); n > 0 && !e.Asked && failed && process.Code == worker.ExitAccount {
		return q.c.quotas.After(e.Who.Path, e.Exit, &all.Calls[n-1])
	}
	q.c.quotas.Gone(e.Who.Path)
	return e.Exit
}

// ask is quota.Options.AskAccount.
func (q quotaAgents) ask(ctx context.Context, path, account string, argv []string) (limits.Answer, error) {
	a := q.c.fleet().Agents[path]
	if a == nil {
		return limits.Answer{}, supervisor.ErrNotFound
	}
	as, err := q.c.agents.Identity(a)
	if err != nil {
		return limits.Answer{}, err
	}
	l := runtime.Launch{Path: path, Env: environOf(as, path, a)}
	q.c.prepare(a, &l)
	env, err := q.c.quotas.AccountEnviron(account, l.Env)
	if err != nil {
		return limits.Answer{}, err
	}
	return limits.Ask(ctx, proc.Command{
		Argv: argv, Dir: a.Dir, Env: env, NoNewPrivileges: a.NoNewPrivileges, User: as.User,
		Paths: landlock.New(a.ReadWritePaths, a.ReadOnlyPaths),
	})
}

// environ is agent.Options.Environ.
func (c *Controller) environ(path string, env []string) ([]string, error) {
	env, err := c.quotas.Environ(path, env)
	env = c.traces.Environ(path, env)
	f := c.fleet()
	a, listen := f.Agents[path], f.File.OTLP.Listen
	if a == nil || listen == "" {
		return env, err
	}
	return otlp.Environ(a.CommandLine(), env, listen), err
}

// reported returns what is known of the last run of an agent that reports its calls itself.
func (c *Controller) reported(path string) callfile.Records {
	if a := c.fleet().Agents[path]; a != nil && a.Pipeline != nil {
		return c.workers.Calls(path)
	}
	return c.triggers.Calls(path)
}

// newCalls returns what follows the calls of the agents of a controller.
func newCalls(c *Controller) *calls.Manager {
	return calls.New(calls.Options{
		Logger: c.opts.Logger, Append: func(e event.Event) { c.log.Append(e) }, Quotas: c.quotas, Go: c.background.run,
		Far: machines{c}.callsOf, Runs: c.reported, Progress: c.budgets.Progress,
		Output: func(
			ctx context.Context, who token.Caller, since time.Time, session runtime.Session, line func(string),
		) error {
			return c.output.Live(ctx, who, since, session, line)
		},
	})
}
