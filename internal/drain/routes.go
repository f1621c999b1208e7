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
	// Begin asks an agent, with a supervisor all below it, to finish, waits until it says that it has,
	// or for as long as the request allows, and stops it. The drain goes on if the caller leaves, and
	// if the daemon ends. One that is drained already is waited for.
	Begin = api.Route[Request, api.None]{
		Method: "POST", Path: "/drain", For: api.People,
		ID: "drain", Summary: "Ask agents to finish, and stop them then",
		Doc: "With a supervisor all agents below it. The answer comes when they have said that they have finished, " +
			"or their time is over, and are stopped. The drain goes on without the caller, and without the daemon in " +
			"the next one.",
	}
	// Check returns the drain of the agent that calls.
	Check = api.Route[api.None, CheckResponse]{
		Method: "GET", Path: "/drain", For: api.Agents,
		ID: "draining", Summary: "Whether the calling agent is to finish",
		Returns: "Whether it is.",
	}
	// Acknowledge says that the agent that calls has finished. ErrConflict without a request.
	Acknowledge = api.Route[api.None, api.None]{
		Method: "POST", Path: "/drain/ack", For: api.Agents,
		ID: "ackDrain", Summary: "The calling agent has finished, and may be stopped",
	}
)

// DefaultTimeout is how long an agent may take to finish by default, MaxTimeout how long at most.
const (
	DefaultTimeout = 5 * time.Minute
	MaxTimeout     = 7 * 24 * time.Hour
)

// Request says which agents are to finish.
type Request struct {
	_       struct{} `schema:"DrainRequest" doc:"Who is to finish."`
	Path    string   `json:"path" maxLength:"1024" doc:"An agent, or a supervisor for all below it."`
	Timeout float64  `json:"timeout_seconds,omitempty" minimum:"0" maximum:"604800" doc:"How long they may take; 300 if it is not given or 0."`
	Reason  string   `json:"reason,omitempty" doc:"For the agents and for people; cut to 256 bytes."`
	Again   bool     `json:"again,omitempty" doc:"The request was made before, and its answer was lost: no agent is drained again, and it is a conflict if the drain was ended since."`
}

// Info says that an agent is to finish.
type Info struct {
	_        struct{} `schema:"Drain" doc:"An agent is to finish what it does."`
	Reason   string   `json:"reason,omitempty" doc:"Why, as the caller has said."`
	Left     float64  `json:"left_seconds" minimum:"0" doc:"Until it is stopped in any case."`
	Finished bool     `json:"finished,omitempty" doc:"It has, as it says."`
}

// CheckResponse says whether an agent is to finish.
type CheckResponse struct {
	_     struct{} `schema:"DrainCheck" doc:"Whether an agent is to finish."`
	Drain *Info    `json:"drain,omitempty"` // nil: go on
}

// Register has a server answer the routes of drains.
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
