package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// The routes of drains.
var (
	// Begin drains an agent, or all agents below a supervisor, and returns when they are stopped. The
	// drains continue if the caller disconnects or the daemon stops. For an agent that is drained
	// already it waits for the end of that drain.
	Begin = api.Route[Request, api.None]{
		Method: "POST", Path: "/drain", For: api.People,
		ID: "drain", Summary: "Drain agents, then stop them",
		Doc: "For a supervisor, all agents below it. The answer comes when the agents have finished, or their time " +
			"is over, and they are stopped. The drain continues if the caller disconnects, and with the next daemon.",
	}
	// Check returns the drain of the calling agent.
	Check = api.Route[api.None, CheckResponse]{
		Method: "GET", Path: "/drain", For: api.Agents,
		ID: "draining", Summary: "Whether the calling agent is drained",
		Returns: "The drain, if there is one.",
	}
	// Acknowledge reports that the calling agent has finished. The error is api.ErrConflict if it is
	// not drained.
	Acknowledge = api.Route[api.None, api.None]{
		Method: "POST", Path: "/drain/ack", For: api.Agents,
		ID: "ackDrain", Summary: "Report that the drained agent has finished",
	}
)

// Bounds of the time in which an agent has to finish.
const (
	DefaultTimeout = 5 * time.Minute
	MaxTimeout     = 7 * 24 * time.Hour
)

// Request selects the agents to drain.
type Request struct {
	_       struct{} `schema:"DrainRequest" doc:"The agents to drain."`
	Path    string   `json:"path" maxLength:"1024" doc:"An agent, or a supervisor for all agents below it."`
	Timeout float64  `json:"timeout_seconds,omitempty" minimum:"0" maximum:"604800" doc:"How long they may take; 300 if it is missing or 0."`
	Reason  string   `json:"reason,omitempty" doc:"For the agents and for people; cut to 256 bytes."`
	Again   bool     `json:"again,omitempty" doc:"The request was made before and its answer was lost: no agent is drained again, and it is a conflict if the drain was canceled since."`
}

// Info is the drain of an agent as the API shows it.
type Info struct {
	_        struct{} `schema:"Drain" doc:"A drain of an agent."`
	Reason   string   `json:"reason,omitempty" doc:"The reason that the caller has given."`
	Left     float64  `json:"left_seconds" minimum:"0" doc:"Time until it is stopped in any case."`
	Finished bool     `json:"finished,omitempty" doc:"The agent has acknowledged that it has finished."`
}

// CheckResponse is the answer of Check.
type CheckResponse struct {
	_     struct{} `schema:"DrainCheck" doc:"Whether an agent is drained."`
	Drain *Info    `json:"drain,omitempty"` // nil: the agent is not drained
}

// Register adds the handlers of the routes to a server.
func (m *Manager) Register(s *api.Server) {
	Begin.Handle(s, func(ctx context.Context, _ token.Caller, r Request) (none api.None, err error) {
		if err := api.CheckPath(r.Path); err != nil {
			return none, err
		}
		if r.Timeout < 0 || r.Timeout > MaxTimeout.Seconds() {
			return none, fmt.Errorf("%w: timeout_seconds is %g, expected 0 to %g", api.ErrInvalid, r.Timeout,
				MaxTimeout.Seconds())
		}
		return none, m.Drain(ctx, r)
	})
	Check.Handle(s, func(_ context.Context, who token.Caller, _ api.None) (CheckResponse, error) {
		return CheckResponse{Drain: m.Draining(who)}, nil
	})
	Acknowledge.Handle(s, func(_ context.Context, who token.Caller, _ api.None) (none api.None, err error) {
		return none, m.AckDrain(who)
	})
}
