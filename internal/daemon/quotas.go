package daemon

import (
	"context"
	"errors"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// newQuotas returns the quotas of a controller.
func newQuotas(c *Controller) *quota.Manager {
	return quota.New(quota.Options{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Agents: quotaAgents{c}, Go: c.background.run,
		Changed: func() { notify(c.pauses.look) },
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

// exit is agent.Options.Classify.
func (q quotaAgents) exit(e agent.End) supervisor.Exit {
	path, cli := e.Who.Path, e.Agent.CommandLine()
	switch {
	case e.Agent.Aide != nil:
		return q.runExit(e)
	case cli == agentcli.Plain:
		q.c.quotas.Gone(path)
		return e.Exit
	}
	record, err := quota.Read(cli, q.read, e.Who, e.Exit, e.Asked)
	if err != nil {
		q.c.opts.Logger.Warn("cannot read the output of a command line", "path", path, "error", err)
	}
	record.Ended = e.At
	q.c.costs.Ended(path, e.Who.Incarnation, e.Life, record)
	if err != nil || e.Asked {
		q.c.quotas.Gone(path)
		return e.Exit
	}
	return q.c.quotas.After(path, e.Exit, &record)
}

// runExit returns the exit of a run of an Aidefile, with what is known of its last call.
func (q quotaAgents) runExit(e agent.End) supervisor.Exit {
	process, failed := errors.AsType[*proc.ExitError](e.Exit.Err)
	calls := q.c.triggers.Calls(e.Who.Path).Calls
	if len(calls) > 0 && !e.Asked && (e.Exit.Kind == supervisor.Normal || failed && process.Signal == 0) {
		last := calls[len(calls)-1]
		if last.OfAccount() == (failed && process.Code == aidefile.Deferred.Code()) {
			return q.c.quotas.After(e.Who.Path, e.Exit, &last)
		}
	}
	q.c.quotas.Gone(e.Who.Path)
	return e.Exit
}

// outputLines is how many last lines of an incarnation tell how its command line has ended.
const outputLines = 5000

// read is a quota.Output.
func (q quotaAgents) read(ctx context.Context, who token.Caller, line func(string)) error {
	for l, err := range q.c.output.Logs(ctx, output.Query{Paths: []string{who.Path}, Lines: outputLines}) {
		if err != nil {
			return err
		}
		if l.Between == nil && l.Incarnation == who.Incarnation {
			line(l.Line)
		}
	}
	return nil
}

// follow reads what an agent that runs a command line writes.
func (q quotaAgents) follow(who token.Caller, p *agent.Process, a *spec.Agent) {
	cli := a.CommandLine()
	if a.Aide != nil || a.Terminal || cli == agentcli.Plain || cli == agentcli.ACP {
		return
	}
	q.c.background.run(func(ctx context.Context) {
		q.c.quotas.Follow(ctx, cli, func(ctx context.Context, who token.Caller, line func(string)) error {
			return q.c.output.Live(ctx, who.Path, who.Incarnation, p.Session(), line)
		}, who)
	})
}
