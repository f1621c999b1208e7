package node

import (
	"context"
	"errors"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// End ends the daemon of a node, and not the fleet. The node answers it itself, also without a controller.
var End = api.Route[EndRequest, Ending]{
	Method: "POST", Path: "/node/end", For: api.People,
	ID: "endNode", Summary: "End the daemon of this node, and not the fleet",
	Doc: "The answer comes when the end has begun.",
}

// EndRequest selects how the daemon of a node ends.
type EndRequest struct {
	_ struct{} `schema:"NodeEndRequest" doc:"How the daemon of a node ends."`

	Keep bool `json:"keep,omitempty" doc:"Leave its agents running for the rest of its lease; a daemon that is started before takes them over."`
}

// Ending describes a node whose daemon ends.
type Ending struct {
	_ struct{} `schema:"NodeEnding" doc:"A node whose daemon ends."`

	Node       string `json:"node" doc:"Its name."`
	Controller bool   `json:"controller" doc:"Whether it was the controller."`
	Starting   bool   `json:"starting,omitempty" doc:"Whether its daemon was starting, and had taken over no agents yet; not there if not."`
}

// Causes of the end of the context of Run, for people.
var (
	// ErrEnded ends the node: its agents are stopped, and others may start them.
	ErrEnded = errors.New("a person has ended the daemon of this node")
	// ErrKeeping ends the node and keeps its leases and its agents, for a process that follows.
	ErrKeeping = errors.New("a person has ended the daemon of this node, and its agents go on")
)

// HandleEnd has a server of a node answer End. now describes the node, and end ends it with a cause.
func HandleEnd(s *api.Server, now func() Ending, end context.CancelCauseFunc) {
	End.Handle(s, func(_ context.Context, _ token.Caller, r EndRequest) (Ending, error) {
		answer := now()
		if r.Keep {
			end(ErrKeeping)
		} else {
			end(ErrEnded)
		}
		return answer, nil
	})
}
