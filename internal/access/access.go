// Package access tells the requests of agents from those of people, by tokens and by the
// processes that send them, and records refused requests.
package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/token"
)

// Whoami returns the identity that the daemon sees for the calling agent.
var Whoami = api.Route[api.None, token.Caller]{
	Method: "GET", For: api.Agents,
	ID: "whoami", Summary: "Who the daemon takes the calling agent for",
	Returns: "The agent and its incarnation.",
}

// Options configure an Access.
type Options struct {
	Runtimes map[string]runtime.Runtime
	Jobs     *job.Runner // nil if the daemon fires no orders
	Socket   string      // of the daemon; empty if agents cannot reach it
	Log      *event.Log
	// Token returns the incarnation of a token; see token.Registry.
	Token func(given string) (token.Caller, error)
	// Request is called for each request with a valid token.
	Request func(who token.Caller)
	// Has reports whether the project has an agent.
	Has func(path string) bool
	// Last returns the number of the last incarnation of an agent.
	Last func(path string) uint64
}

// Access implements api.Access.
type Access struct {
	Options
	owners []runtime.Owner

	mu     sync.Mutex
	denied map[denial]*denials
}

// New returns an Access without refused requests.
func New(o Options) *Access {
	a := &Access{Options: o, denied: make(map[denial]*denials)}
	for _, r := range o.Runtimes {
		if o, ok := r.(runtime.Owner); ok {
			a.owners = append(a.owners, o)
		}
	}
	return a
}

// Register registers the route Whoami.
func (a *Access) Register(s *api.Server) {
	Whoami.Handle(s, func(_ context.Context, who token.Caller, _ api.None) (token.Caller, error) { return who, nil })
}

// Caller implements api.Access.
func (a *Access) Caller(_ context.Context, given string) (token.Caller, error) {
	who, err := a.Token(given)
	if err == nil {
		a.Request(who)
	}
	return who, err
}

// denial identifies a kind of refused request: the agent and the request.
type denial struct{ path, request string }

// denials counts the refused requests since the last event about them.
type denials struct {
	reported time.Time
	since    int
}

// denialInterval is the minimum time between two events about the same denial, so an agent that
// keeps asking does not fill the log.
const denialInterval = time.Minute

// Owner implements api.Access. The nearest agent counts: an agent may have started this daemon,
// or run a project of its own. Processes of the daemon itself, such as hooks and checks, belong
// to no agent.
func (a *Access) Owner(pid int) (*token.Caller, error) {
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
		owner.Incarnation = a.Last(owner.Path)
	}
	return owner, nil
}

// RunOf implements api.Access.
func (a *Access) RunOf(pid int) string {
	if a.Jobs == nil {
		return ""
	}
	l, err := proc.LineageOf(pid)
	if err != nil {
		return ""
	}
	return dispatch.OrderOf(a.Jobs.Owner(l))
}

// declared returns the agent that a process belongs to by its environment. This finds processes
// that have left all processes of their agent.
func (a *Access) declared(pid int) *token.Caller {
	env := proc.EnvironmentOf(pid)
	own := env[proc.EnvSocket]
	if a.Socket == "" || own != a.Socket && filepath.Dir(own) != filepath.Dir(endpoint.GuestPath(a.Socket, 0)) {
		return nil
	}
	if path := env[proc.EnvAgent]; a.Has(path) {
		return &token.Caller{Path: path}
	}
	return nil
}

// Denied implements api.Access.
func (a *Access) Denied(who token.Caller, pid int, request string) {
	d, now := denial{who.Path, request}, time.Now()
	a.mu.Lock()
	for old, n := range a.denied {
		if old != d && now.Sub(n.reported) > denialInterval {
			delete(a.denied, old)
		}
	}
	n := a.denied[d]
	if n == nil {
		n = &denials{}
		a.denied[d] = n
	}
	n.since++
	if !n.reported.IsZero() && now.Sub(n.reported) < denialInterval {
		a.mu.Unlock()
		return
	}
	times := n.since
	n.reported, n.since = now, 0
	a.mu.Unlock()
	e := event.Event{
		Type: event.AccessDenied, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path,
		Message: fmt.Sprintf("%s was refused %s, which only people can do", who.Name(), request),
	}
	a.Log.Append(e.With(map[string]any{"pid": pid, "request": request, "times": times}))
}
