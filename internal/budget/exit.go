package budget

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Exit returns the exit of an incarnation that a budget has ended: its agent waits, or goes on at once with other
// tasks. ok is false if it has ended for another reason.
func (m *Manager) Exit(path string, incarnation uint64, exit supervisor.Exit) (_ supervisor.Exit, ok bool) {
	account := m.Account(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	stopped := m.stops[path]
	if stopped.incarnation != incarnation {
		stopped.why = ""
	}
	delete(m.stops, path)
	no := m.refuses(path, account, time.Now())
	end := &quota.EndError{Exit: exit.Err}
	switch {
	case no != nil && (stopped.why != "" || wasKilled(exit)): // perhaps by an earlier daemon
		end.Text, end.Wait = no.String(), m.wait(path, no)
	case stopped.why != "": // it was raised since, or only a task has to wait
		end.Text = stopped.why
		end.Wait = &supervisor.RetryError{At: time.Now(), Err: &WaitError{stopped.why}}
	default:
		return exit, false
	}
	return supervisor.Exit{Kind: supervisor.Failure, Err: end}, true
}

func wasKilled(exit supervisor.Exit) bool {
	e, ok := errors.AsType[*proc.ExitError](exit.Err)
	return ok && e.Signal == syscall.SIGKILL
}

// ParkTask returns why the task at which an incarnation that has ended has worked is parked; empty if it is not.
func (m *Manager) ParkTask(ctx context.Context, path string, incarnation uint64) string {
	id, account := m.Tasks().Worked(path, incarnation), m.Account(path)
	if id == "" || !m.has(spec.PerTask) || !m.Tasks().Claims(ctx, path, id) {
		return ""
	}
	m.reading.Lock() // what is read stays known until it is used
	m.readTask(ctx, id)
	m.mu.Lock()
	why, changed := m.parkTask(path, account, id, time.Now())
	for _, name := range changed {
		m.save(name, "", "")
	}
	m.mu.Unlock()
	m.reading.Unlock()
	if why != "" {
		m.check()
	}
	return why
}
