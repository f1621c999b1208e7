package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
}

// Caller implements api.Access: only the controller knows tokens.
func (l *localProcesses) Caller(context.Context, string) (token.Caller, error) {
	return token.Caller{}, fmt.Errorf("%w: this is for people", api.ErrUnauthorized)
}

// Denied implements api.Access.
func (l *localProcesses) Denied(who token.Caller, pid int, request string) {
	l.logger.Warn("an agent was refused what only people can do", "path", who.Path, "pid", pid, "request", request)
}

// known begins to tell, once the runtimes are open.
func (l *localProcesses) known(m *machine) {
	all := make(map[string]runtime.Runtime)
	for _, rt := range m.runtimes {
		all[rt.Kind()] = rt
	}
	l.access.Store(access.New(access.Options{
		Runtimes: all, Jobs: m.jobs, Socket: m.socket,
		Has:  func(string) bool { return true }, // an agent that says so has fewer rights than a person
		Last: func(string) uint64 { return 0 },  // the controller knows
	}))
}

var errNotOpen = errors.New("the daemon is starting")

// Owner implements api.Processes.
func (l *localProcesses) Owner(pid int) (*token.Caller, error) {
	if a := l.access.Load(); a != nil {
		return a.Owner(pid)
	}
	return nil, errNotOpen
}

// RunOf implements api.Processes.
func (l *localProcesses) RunOf(pid int) string {
	if a := l.access.Load(); a != nil {
		return a.RunOf(pid)
	}
	return ""
}
