// Package notice tells an agent what it should know now: that it is asked to finish or about to be
// restarted, and which messages, answers and tasks it has.
package notice

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// Hook returns the notices for the calling agent, the most urgent first.
var Hook = api.Route[HookRequest, []Notice]{
	Method: "POST", Path: "/hook", For: api.Agents,
	ID: "hook", Summary: "Get pending work and messages of the calling agent",
	Doc:     "Messages are returned once to each incarnation, as by mail/deliver; other notices as long as they apply.",
	Returns: "The notices, the most urgent first.",
}

// HookRequest identifies a call, so that it can be repeated.
type HookRequest struct {
	_ struct{} `doc:"Identifies a call."`

	Key string `json:"key,omitempty" doc:"The same key returns the same messages again, after a lost answer."`
}

// Notice is something that an agent should know.
type Notice struct {
	_ struct{} `doc:"A notice for an agent."`

	Kind string `json:"kind" doc:"Kind: drain, restart, mail, answer or task. There may be others in the future."`
	ID   string `json:"id,omitempty" doc:"Id of the message or task."`
	Text string `json:"text" doc:"One line. It may contain text from other agents and people."`
}

// Source returns the notices of a feature for an incarnation. Notices that are given only once are
// given again for the same key.
type Source func(ctx context.Context, who token.Caller, key string) ([]Notice, error)

// Register adds a handler that returns the notices of all sources, in their order.
func Register(s *api.Server, sources ...Source) {
	Hook.Handle(s, func(ctx context.Context, who token.Caller, req HookRequest) (all []Notice, err error) {
		for _, source := range sources {
			some, err := source(ctx, who, req.Key)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	})
}
