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
	ID: "hook", Summary: "What there is for the calling agent now",
	Doc:     "Each message is told once to an incarnation, as mail/deliver does; all else as long as it is so.",
	Returns: "What there is, what presses most first.",
}

// HookRequest identifies a call, so that it can be repeated.
type HookRequest struct {
	_ struct{} `doc:"How to ask again."`

	Key string `json:"key,omitempty" doc:"What was told under this key is told again: for a caller whose answer was lost."`
}

// Notice is something that an agent should know.
type Notice struct {
	_ struct{} `doc:"Something that an agent should know."`

	Kind string `json:"kind" doc:"What it is: drain, restart, mail, answer, task. Readers must expect others."`
	ID   string `json:"id,omitempty" doc:"Of the message, or the task."`
	Text string `json:"text" doc:"A line, which may contain words of others."`
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
