package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/token"
)

// access tells the requests of agents from those of people, and records those
// that are refused.
type access struct {
	owners []runtime.Owner
	jobs   *job.Runner // nil if no orders are fired
	socket string
	has    func(path string) bool   // whether the project has such an agent
	last   func(path string) uint64 // the number of its last incarnation
	log    *event.Log

	mu     sync.Mutex
	denied map[denial]*denials
}

func newAccess(c *Controller) *access {
	a := &access{
		jobs: c.opts.Jobs, socket: c.opts.Socket, last: c.last, log: c.log, denied: make(map[denial]*denials),
		has: func(path string) bool { return c.fleet().Agents[path] != nil },
	}
	for _, r := range c.agents.Runtimes() {
		if o, ok := r.(runtime.Owner); ok {
			a.owners = append(a.owners, o)
		}
	}
	return a
}

// denial is what one agent was refused.
type denial struct{ path, request string }

// denials counts refusals since the last event about them.
type denials struct {
	told  time.Time
	since int
}

// denialPause is the least time between two events about the same denial: an
// agent that asks again and again must not fill the log.
const denialPause = time.Minute

// Owner is part of api.Access. The nearest agent counts: one may have started
// this daemon, or run a project of its own. What the daemon itself runs, such as
// hooks and checks, belongs to no agent.
func (a *access) Owner(pid int) (*token.Caller, error) {
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
	var owner *token.Caller
	nearest := len(l.Processes)
	for _, o := range a.owners {
		if path, at := o.Owner(l); at >= 0 && at < nearest {
			owner, nearest = &token.Caller{Path: path}, at
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

// RunOf is part of api.Access.
func (a *access) RunOf(pid int) string {
	if a.jobs == nil {
		return ""
	}
	l, err := proc.LineageOf(pid)
	if err != nil {
		return ""
	}
	return dispatch.OrderOf(a.jobs.Owner(l))
}

// declared returns the agent that a process is by its environment: one that has
// left all processes of its agent and still has its variables.
func (a *access) declared(pid int) *token.Caller {
	env := proc.EnvironmentOf(pid)
	own := env[proc.EnvSocket]
	if a.socket == "" || own != a.socket && filepath.Dir(own) != filepath.Dir(endpoint.GuestPath(a.socket, 0)) {
		return nil
	}
	if path := env[proc.EnvAgent]; a.has(path) {
		return &token.Caller{Path: path}
	}
	return nil
}

// Denied is part of api.Access.
func (a *access) Denied(who token.Caller, pid int, request string) {
	d, now := denial{who.Path, request}, time.Now()
	a.mu.Lock()
	for old, n := range a.denied {
		if old != d && now.Sub(n.told) > denialPause {
			delete(a.denied, old)
		}
	}
	n := a.denied[d]
	if n == nil {
		n = &denials{}
		a.denied[d] = n
	}
	n.since++
	if !n.told.IsZero() && now.Sub(n.told) < denialPause {
		a.mu.Unlock()
		return
	}
	times := n.since
	n.told, n.since = now, 0
	a.mu.Unlock()
	e := event.Event{
		Type: event.AccessDenied, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path,
		Message: fmt.Sprintf("%s was refused %s, which only people can do", who.Name(), request),
	}
	a.log.Append(e.With(map[string]any{"pid": pid, "request": request, "times": times}))
}
