package daemon

import (
	"errors"
	"os"
	"slices"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// access tells the requests of agents from those of people.
type access struct {
	owners []runtime.Owner
	socket string
	has    func(path string) bool   // whether the project has such an agent
	last   func(path string) uint64 // the number of its last incarnation
}

func newAccess(c *Controller) *access {
	a := &access{
		socket: c.opts.Socket, last: c.last,
		has: func(path string) bool { return c.fleet().agents[path] != nil },
	}
	for _, r := range c.places {
		if o, ok := r.(runtime.Owner); ok {
			a.owners = append(a.owners, o)
		}
	}
	return a
}

// Owner is part of api.Access. The nearest agent counts: one may have started
// this daemon, or run a project of its own. What the daemon itself runs, such as
// hooks and checks, belongs to no agent.
func (a *access) Owner(pid int) (*api.Caller, error) {
	l, err := proc.LineageOf(pid)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	self := slices.IndexFunc(l.Processes, func(id proc.Identity) bool { return id.PID == os.Getpid() })
	if self >= 0 {
		l.Processes, l.Group = l.Processes[:self], ""
	}
	var owner *api.Caller
	nearest := len(l.Processes)
	for _, o := range a.owners {
		if path, at := o.Owner(l); at >= 0 && at < nearest {
			owner, nearest = &api.Caller{Path: path}, at
		}
	}
	if owner == nil && self < 0 {
		owner = a.declared(pid)
	}
	if owner != nil {
		owner.Incarnation = a.last(owner.Path)
	}
	return owner, nil
}

// declared returns the agent that a process is by its environment: one that has
// left all processes of its agent and still has its variables.
func (a *access) declared(pid int) *api.Caller {
	env := proc.EnvironmentOf(pid)
	if a.socket == "" || env[proc.EnvSocket] != a.socket {
		return nil
	}
	if path := env[proc.EnvAgent]; a.has(path) {
		return &api.Caller{Path: path}
	}
	return nil
}
