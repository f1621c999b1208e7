package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/coppice-dev/coppice/internal/access"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/token"
)

// localProcesses tells what the processes of this node belong to. It is the api.Access of what the node answers itself,
// which is for people.
type localProcesses struct {
	logger *slog.Logger
	access atomic.Pointer[access.Access]
	isOpen atomic.Bool // the runtimes of this node are open
}

// Caller implements api.Access: only the controller knows tokens.
func (l *localProcesses) Caller(context.Context, string) (token.Caller, error) {
	return token.Caller{}, fmt.Errorf("%w: this is for people", api.ErrUnauthorized)
}

// Denied implements api.Access.
func (l *localProcesses) Denied(who token.Caller, pid int, request string) {
	l.logger.Warn("an agent was refused what only people can do", "path", who.Path, "pid", pid, "request", request)
}

// find begins to tell, by the slots that an earlier daemon has left. The caller must call end.
func (l *localProcesses) find(m *machine) (end func(), err error) {
	found, err := m.project.ExistingRuntimes(m.Logger)
	end = sync.OnceFunc(func() {
		for _, rt := range found {
			_ = rt.Close() // it was only read
		}
	})
	if err != nil {
		end()
		return nil, err
	}
	l.use(m, found)
	return end, nil
}

// open goes on with the runtimes of a machine, once these are open.
func (l *localProcesses) open(m *machine) {
	l.use(m, m.runtimes)
	l.isOpen.Store(true)
}

func (l *localProcesses) use(m *machine, runtimes []runtime.Runtime) {
	all := make(map[string]runtime.Runtime)
	for _, rt := range runtimes {
		all[rt.Kind()] = rt
	}
	l.access.Store(access.New(access.Options{
		Runtimes: all, Jobs: m.jobs, Socket: m.socket,
		Has:  func(string) bool { return true }, // an agent that says so has fewer rights than a person
		Last: func(string) uint64 { return 0 },  // the controller knows
	}))
}

// Owner implements api.Processes.
func (l *localProcesses) Owner(pid int) (*token.Caller, error) { return l.access.Load().Owner(pid) }

// RunOf implements api.Processes.
func (l *localProcesses) RunOf(pid int) string { return l.access.Load().RunOf(pid) }
