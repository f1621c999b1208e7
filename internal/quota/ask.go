package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/limits"
	"github.com/coppice-dev/coppice/internal/outcome"
)

const (
	// fresh is the time after the last sign of an account in which a start asks nothing.
	fresh = 5 * time.Minute
	// muted is the pause in questions about an account after an error.
	muted = time.Hour
	// maxAsks bounds the questions at the same time: each runs a process of 200 MB for half a second.
	maxAsks = 2
)

// needsAnswer reports whether an agent that may start has to wait for an answer about its account, of which was heard
// last at a time: nothing is known of the account lately, or a try would be in vain if it is still used up.
func (p *Pool) needsAnswer(heard, now time.Time) bool {
	switch p.State {
	case Open:
		return now.Sub(heard) >= fresh
	case Parked:
		return p.Reset.IsZero() && heard.Before(p.Until)
	}
	return false
}

// ask asks about an account if an agent that may start with it has to wait for the answer. It returns a channel that is
// closed then, nil if the agent need not wait. Needs mu.
func (m *Manager) ask(path string, p *Pool, now time.Time) <-chan struct{} {
	l := m.leftOf(p.Name)
	if l.asking != nil {
		return l.asking
	}
	a := m.Agents.Fleet().Agents[path]
	if now.Before(l.mute) || a == nil || a.CommandLine() != agentcli.Claude || !p.needsAnswer(l.heard, now) {
		return nil
	}
	argv := limits.Command(a.CallCommand())
	if argv == nil {
		return nil
	}
	asking, name := make(chan struct{}), p.Name
	l.asking = asking
	m.Go(func(ctx context.Context) {
		defer close(asking)
		answer, err := m.askInTurn(ctx, path, name, argv)
		m.answered(path, name, answer, err)
	})
	return asking
}

// askInTurn asks about an account when fewer than maxAsks questions are under way.
func (m *Manager) askInTurn(ctx context.Context, path, name string, argv []string) (limits.Answer, error) {
	select {
	case m.asks <- struct{}{}:
		defer func() { <-m.asks }()
		return m.AskAccount(ctx, path, name, argv)
	case <-ctx.Done():
		return limits.Answer{}, context.Cause(ctx)
	}
}

// answered takes note of an answer about an account. After an error the next answer would most likely be the same:
// nothing tells what is left of an API key.
func (m *Manager) answered(path, name string, answer limits.Answer, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	l := m.heard(name, now)
	if l.asking = nil; err != nil {
		l.mute = now.Add(muted)
		m.Logger.Debug("cannot ask what is left of an account", "quota", name, "path", path, "error", err)
	}
	for _, w := range answer.Windows {
		l.tell(w, now)
	}
	fleet := m.Agents.Fleet()
	p := m.pool(name)
	w, used := usedUp(answer, now, func(model string) bool { return fleet.onlyUses(name, model) })
	if used && fleet.exists(name) && (p.State == Open || p.State == Parked && p.Reset.IsZero()) {
		r := agentcli.Record{CLI: agentcli.Claude, Verdict: agentcli.Verdict{
			Obstacle: outcome.UsageLimit, Reset: w.Resets, ResetFrom: agentcli.FromAccount,
			Reason: fmt.Sprintf("the limit of %s is used up, as claude has said before a run", WindowText(w.Name)),
		}}
		before := *p
		p.close(path, r, now, m.random)
		m.changed(before, p)
	}
}
