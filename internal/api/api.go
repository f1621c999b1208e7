// Package api lets programs talk to a daemon by HTTP and JSON over a unix socket:
// it has the server for the daemon and the client for other programs.
//
// A feature declares what it can be asked as typed routes, handles them with
// Route.Handle, and its callers use Route.Call. The server checks who asks, turns
// errors into status codes and back, and describes the routes by their types: the
// tag json names a field, which is required unless it says omitempty or omitzero;
// the tags doc, minimum, maximum, maxLength and enum describe it, and the tags doc and
// schema of a field named _ describe and name the type. What no feature has
// declared yet is in the interface Daemon.
package api

import (
	"context"
	"errors"
)

// Errors that survive the wire: the client returns what the service did.
var (
	ErrNotFound = errors.New("no such node")         // 404; exit code 3
	ErrConflict = errors.New("not possible now")     // 409: it runs already, it is restarting, ...
	ErrInvalid  = errors.New("invalid request")      // 400; exit code 2
	ErrDown     = errors.New("no daemon is running") // the client's own; exit code 69
	ErrStopping = errors.New("daemon is stopping")   // 503; or not there yet

	// The client's own, too: the answer did not come. It is not known whether
	// the request was carried out.
	ErrLost = errors.New("the connection to the daemon was lost")

	ErrUnauthorized = errors.New("not allowed") // 401; exit code 77, as token.ErrStale
)

// Daemon is what a daemon answers apart from the routes that features own.
type Daemon interface {
	Service
	Access
	Selves
	Farewells
}

// Service is what people can ask of a daemon. Paths name nodes, such as "app/db/monitor";
// the first segment may be left out. Errors wrap those above.
type Service interface {
	// Act does something to a node, and with a supervisor to all below it,
	// and returns when it is done. What is so already is no error.
	Act(ctx context.Context, path string, action Action) (Acted, error)
	// Down stops everything in order and ends the daemon. With keep, agents go
	// on without it. It returns when the daemon has begun to.
	Down(ctx context.Context, keep bool) error
}

// Action is what Act does.
type Action string

const (
	Start   Action = "start"   // what is stopped, suspended or held back by a limit
	Stop    Action = "stop"    // until Start; survives the daemon
	Restart Action = "restart" // stop and start; no failure is counted
	Reset   Action = "reset"   // counters and limits are cleared; what is held starts
	Suspend Action = "suspend" // as Stop, for what will be resumed
	Resume  Action = "resume"  // what is suspended, or paused by a limit
)

// Actions are all there are.
func Actions() []Action { return []Action{Start, Stop, Restart, Reset, Suspend, Resume} }

// ActRequest is the body of POST /v1/act.
type ActRequest struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
}

// Acted is what Act has done.
type Acted struct {
	Changed int      `json:"changed"` // how many nodes it was done to
	Already []string `json:"already"` // paths of agents that ran, or were stopped by hand, already
}

// DownRequest is the body of POST /v1/down.
type DownRequest struct {
	Keep bool `json:"keep"` // the agents go on
}
