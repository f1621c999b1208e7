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
		ID: "drain", Summary: "Ask agents to finish, and stop them then",
		Doc: "With a supervisor all agents below it. The answer comes when they have said that they have finished, " +
			"or their time is over, and are stopped. The drain goes on without the caller, and without the daemon in " +
			"the next one.",
	}
	// Check returns the drain of the calling agent.
	Check = api.Route[api.None, CheckResponse]{
		Method: "GET", Path: "/drain", For: api.Agents,
		ID: "draining", Summary: "Whether the calling agent is to finish",
		Returns: "Whether it is.",
	}
	// Acknowledge reports that the calling agent has finished. The error is api.ErrConflict if it is
	// not drained.
	Acknowledge = api.Route[api.None, api.None]{
		Method: "POST", Path: "/drain/ack", For: api.Agents,
		ID: "ackDrain", Summary: "The calling agent has finished, and may be stopped",
	}
)

// Bounds of the time in which an agent has to finish.
const (
	DefaultTimeout = 5 * time.Minute
	MaxTimeout     = 7 * 24 * time.Hour
)

// Request selects the agents to drain.
type Request struct {
	_       struct{} `schema:"DrainRequest" doc:"Who is to finish."`
	Path    string   `json:"path" maxLength:"1024" doc:"An agent, or a supervisor for all below it."`
	Timeout float64  `json:"timeout_seconds,omitempty" minimum:"0" maximum:"604800" doc:"How long they may take; 300 if it is not given or 0."`
	Reason  string   `json:"reason,omitempty" doc:"For the agents and for people; cut to 256 bytes."`
	Again   bool     `json:"again,omitempty" doc:"The request was made before, and its answer was lost: no agent is drained again, and it is a conflict if the drain was ended since."`
}

// Info is the drain of an agent as the API shows it.
type Info struct {
	_        struct{} `schema:"Drain" doc:"An agent is to finish what it does."`
	Reason   string   `json:"reason,omitempty" doc:"Why, as the caller has said."`
	Left     float64  `json:"left_seconds" minimum:"0" doc:"Until it is stopped in any case."`
	Finished bool     `json:"finished,omitempty" doc:"It has, as it says."`
}

// CheckResponse is the answer of Check.
type CheckResponse struct {
	_     struct{} `schema:"DrainCheck" doc:"Whether an agent is to finish."`
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
