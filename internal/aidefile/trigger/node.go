package trigger

import (
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// API returns an agent with an Aidefile as the API shows it, and when its schedules are due next if it
// waits for them. It returns nil for other agents.
func (m *Manager) API(path string, i supervisor.ChildInfo) (*Info, *time.Time) {
	a := m.of(path)
	if a == nil {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	file := a.file.File
	ran := i.Incarnation > 0 || i.LastExit.Kind != supervisor.NoExit || !a.request.Fired.IsZero()
	s := aidefile.StateOf(i.State, ran, file.Triggers)
	if i.State == supervisor.Restarting && i.Reason == supervisor.ReasonRetry {
		s = aidefile.Waiting
	}
	if a.held != supervisor.NoReason && i.State == supervisor.Stopped {
		s = aidefile.Stopped
	}
	n := &Info{
		State: s.String(), Triggers: []string{}, Failing: a.failing, Unread: a.unread,
		Restart: file.Policy.Restart.String(), MaxRestarts: file.Policy.MaxRestarts, Restarts: i.InWindow,
		Spent: s == aidefile.GivenUp && errors.Is(i.LastExit.Err, supervisor.ErrDoNotRestart),
	}
	if i.Limit.Scope != supervisor.ScopeChild {
		n.Restarts = 0
	}
	for _, t := range file.Triggers {
		n.Triggers = append(n.Triggers, t.String())
		if t.Kind == aidefile.Cron {
			if at := t.Schedule.Next(time.Now()); n.NextFire == nil || at.Before(*n.NextFire) {
				n.NextFire = &at
			}
		}
	}
	if fired := a.request.Fired; !fired.IsZero() {
		n.Task, n.FiredBy, n.Fired = firstLine(a.request.Task), source(a.request), &fired
	}
	switch s {
	case aidefile.Idle, aidefile.Done, aidefile.GivenUp:
		return n, n.NextFire
	}
	return n, nil
}
