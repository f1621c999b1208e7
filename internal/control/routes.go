package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// The routes by which people act on a fleet.
var (
	// Act carries out an action on a node, and for a supervisor on all nodes below it. It returns
	// when that is done. A node that is already in the wanted state is no error. The first segment of
	// the path may be left out.
	Act = api.Route[ActRequest, Acted]{
		Method: "POST", Path: "/act", For: api.People,
		ID: "act", Summary: "Start, stop, restart, reset, suspend or resume a node",
		Doc:     "The answer comes when that is done.",
		Returns: "The action is done, or was not necessary.",
	}
	// Down stops everything in order and ends the daemon.
	Down = api.Route[DownRequest, api.None]{
		Method: "POST", Path: "/down", For: api.People,
		ID: "down", Summary: "Stop everything in order and end the daemon",
		Doc: "The answer comes when the shutdown has begun.",
	}
	// RequestRestart asks for a restart of the calling agent, which counts as no failure. It returns
	// when the restart is certain. The error is api.ErrConflict while the agent is drained.
	RequestRestart = api.Route[RestartRequest, api.None]{
		Method: "POST", Path: "/restart", For: api.Agents,
		ID: "requestRestart", Summary: "Request a restart of the calling agent",
		Doc: "The restart counts as no failure, and comes once for an incarnation, however often it is requested. " +
			"The answer comes when the restart is certain, not when it is done.",
		Returns: "The agent will be restarted.",
	}
)

// Action is an action on a node.
type Action string

const (
	Start   Action = "start"   // starts a node that is stopped, suspended or held by a limit
	Stop    Action = "stop"    // stops until Start, also for the next daemon
	Restart Action = "restart" // stops and starts; counts no failure
	Reset   Action = "reset"   // clears counters and limits; starts a node that was held
	Suspend Action = "suspend" // stops until Resume
	Resume  Action = "resume"  // starts a node that is suspended, or paused by a limit
)

// starts reports whether a node runs after an action.
func (a Action) starts() bool { return a == Start || a == Resume || a == Restart }

var actions = []Action{Start, Stop, Restart, Reset, Suspend, Resume}

// ActRequest is a request for an action.
type ActRequest struct {
	_ struct{} `doc:"An action on a node."`

	Path   string `json:"path" maxLength:"1024" doc:"The node; for a supervisor, all nodes below it."`
	Action Action `json:"action" enum:"start,stop,restart,reset,suspend,resume" doc:"start a node that is stopped, suspended or held by a limit; stop it until start, also for the next daemon; restart it without counting a failure; reset its counters and limits; suspend it until resume; resume it if it is suspended or paused by a limit."`
}

// Acted is the result of Act.
type Acted struct {
	_ struct{} `doc:"The result of an action."`

	Changed int      `json:"changed" minimum:"0" doc:"The number of nodes that were changed."`
	Already []string `json:"already" doc:"Paths of agents that were already in the wanted state: running, for start and resume, or stopped by hand, for stop and suspend."`
}

// DownRequest selects how the daemon ends.
type DownRequest struct {
	_ struct{} `doc:"How the daemon ends."`

	Keep bool `json:"keep,omitempty" doc:"Leave the agents running; the next daemon adopts them."`
}

// RestartRequest is the request of an agent for its restart.
type RestartRequest struct {
	_ struct{} `doc:"The request of an agent for its restart."`

	Reason string `json:"reason" doc:"For people; cut to 256 bytes."`
}

// Register adds the handlers of all routes to a server.
func (m *Manager) Register(s *api.Server) {
	Register(s, m)
	RequestRestart.Handle(s, func(ctx context.Context, who token.Caller, r RestartRequest) (none api.None, err error) {
		return none, m.RequestRestart(ctx, who, r.Reason)
	})
}

// Actor carries out requests of people. *Manager implements it.
type Actor interface {
	Act(ctx context.Context, path string, action Action) (Acted, error)
	Down(ctx context.Context, keep bool) error
}

// Register adds the handlers of the routes for people to a server.
func Register(s *api.Server, a Actor) {
	Act.Handle(s, func(ctx context.Context, _ token.Caller, req ActRequest) (Acted, error) {
		if err := api.CheckPath(req.Path); err != nil {
			return Acted{}, err
		}
		if !slices.Contains(actions, req.Action) {
			return Acted{}, fmt.Errorf("%w: action is %.100q, expected one of %v", api.ErrInvalid, req.Action, actions)
		}
		done, err := a.Act(ctx, req.Path, req.Action)
		if done.Already == nil {
			done.Already = []string{}
		}
		return done, err
	})
	Down.Handle(s, func(ctx context.Context, _ token.Caller, req DownRequest) (none api.None, err error) {
		return none, a.Down(ctx, req.Keep)
	})
}

// Down stops everything in order and ends the daemon; see the route Down.
func (m *Manager) Down(_ context.Context, keep bool) error {
	return m.End(keep)
}
