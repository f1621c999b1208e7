package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
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
func (q quotaAgents) exit(who token.Caller, exit supervisor.Exit, asked bool) supervisor.Exit {
	a := q.c.fleet().Agents[who.Path]
	switch {
	case a == nil, asked, a.CommandLine() == agentcli.Plain && a.Aide == nil:
		q.c.quotas.Gone(who.Path)
		return exit
	case a.Aide == nil:
		return q.c.quotas.Exit(a.CommandLine(), q.read, who, exit)
	}
	process, failed := errors.AsType[*proc.ExitError](exit.Err)
	if calls := q.c.triggers.Calls(who.Path).Calls; len(calls) > 0 &&
		(exit.Kind == supervisor.Normal || failed && process.Signal == 0) {
		last := calls[len(calls)-1]
		if last.OfAccount() == (failed && process.Code == aidefile.Deferred.Code()) {
			return q.c.quotas.After(who.Path, exit, &last)
		}
	}
	q.c.quotas.Gone(who.Path)
	return exit
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

// quotaSender is in front of the name of a quota in its question.
const quotaSender = "quota/"

// The answers to the question about a quota, besides answerResume.
const answerLeave = "leave"

// askAboutQuotas asks one question about each quota that is stopped, and carries out the answers.
func askAboutQuotas(ctx context.Context, c *Controller) {
	stopped := map[string]quota.Info{}
	for _, p := range c.quotas.Pools() {
		if p.State == quota.Stopped {
			stopped[quotaSender+p.Name] = p
		}
	}
	failed := func(err error, name string) {
		if err != nil && ctx.Err() == nil {
			c.opts.Logger.Warn("cannot deal with the question about a quota", "quota", name, "error", err)
		}
	}
	for _, q := range c.questions.List("", true) {
		name, ok := strings.CutPrefix(q.From, quotaSender)
		if !ok || q.Incarnation != 0 {
			continue
		}
		p, lasts := stopped[q.From]
		switch {
		case q.State == question.Open && lasts && !q.At.Before(p.Since):
			delete(stopped, q.From)
		case q.State == question.Open:
			_, err := c.questions.Withdraw(ctx, q.From, q.ID)
			failed(err, name)
		case q.State == question.Answered && lasts && !q.At.Before(p.Since):
			delete(stopped, q.From) // it was asked, and stays stopped if the answer says so
			if !q.TakenAt.IsZero() {
				continue
			}
			_, err := c.questions.Take(ctx, q.From, q.ID)
			if err == nil && q.Answer == answerResume {
				err = c.quotas.Resume(name)
			}
			failed(err, name)
		}
	}
	for from, p := range stopped {
		agents := "wait"
		if p.Next != "" {
			agents = "go on with " + p.Next + " while that serves"
		}
		_, _, err := c.questions.Ask(ctx, question.Draft{
			From: from, Options: []string{answerResume, answerLeave},
			Text: fmt.Sprintf("%s: %s: %s. Its agents %s. "+
				"When that is mended, answer %s, and one of them tries first.",
				p.Name, p.Obstacle, p.Reason, agents, answerResume),
		})
		if errors.Is(err, question.ErrTooMany) {
			err = nil
		}
		failed(err, p.Name)
	}
}
