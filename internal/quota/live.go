package quota

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/token"
)

// patience is how long a command line may take to end after it has reported that its account does not serve it: its
// last words say more.
const patience = time.Second

// Follow reads what an incarnation writes while it runs. If its account does not serve it, and it goes on, its pool
// closes, so that no other agent starts into that: command lines try again for minutes. If it goes first after a limit,
// and the model answers, its pool opens: it may go on for hours.
func (m *Manager) Follow(ctx context.Context, cli agentcli.CLI, read Output, who token.Caller) {
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	began := time.Now()
	var pending atomic.Pointer[agentcli.Record]
	told, answered := false, false // something of its account; by the model
	each := func(e agentcli.Event) {
		told = told || e.Kind == agentcli.Limit || e.Kind == agentcli.Retry || e.Kind == agentcli.Failed
		answered = answered || e.Kind == agentcli.Message || e.Kind == agentcli.Tool ||
			e.Kind == agentcli.Tokens && e.Scope == agentcli.OfMessage && e.Usage.Tokens() > 0
	}
	out := agentcli.Stream{CLI: cli, Each: each}
	errs := agentcli.Stream{CLI: cli, Source: agentcli.FromStderr, Each: each}
	err := read(ctx, who, func(line string) {
		line += "\n"
		out.Write([]byte(line))
		errs.Write([]byte(line))
		if answered {
			m.answered(who.Path, began)
			answered = false
		}
		if !told {
			return
		}
		told = false
		end := agentcli.End{CLI: cli, Output: out.Report(), Stderr: errs.Report(), Now: time.Now()}
		if r, ok := end.Refusal(); ok && pending.Swap(&r) == nil {
			time.AfterFunc(patience, func() {
				if r := pending.Swap(nil); r != nil && ctx.Err() == nil {
					m.refused(who.Path, *r)
				}
			})
		} else if !ok {
			pending.Store(nil)
		}
	})
	if err != nil && ctx.Err() == nil {
		m.Logger.Warn("cannot follow the output of a command line", "path", who.Path, "error", err)
	}
}

// refused takes note that the account of an agent that goes on does not serve it.
func (m *Manager) refused(path string, r agentcli.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(m.used(path))
	if !m.Agents.Fleet().exists(p.Name) {
		return
	}
	before := *p
	if p.close(path, r, time.Now(), m.random); *p != before {
		p.Live = before.State == Open || before.Canary == path // others have ended with it
		m.changed(before, p)
	}
}

// answered takes note that the model has answered an incarnation that began at a time.
func (m *Manager) answered(path string, began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(m.used(path))
	before := *p
	if !began.Before(p.CanaryAt) && p.served(path) {
		m.changed(before, p)
	}
}
