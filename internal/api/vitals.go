package api

import (
	"context"

	"github.com/coppice-dev/coppice/internal/token"
)

// Selves serves what an agent asks for itself. The daemon cuts text to MaxNote
// bytes and makes it plain: what an agent says is a claim.
type Selves interface {
	// Hook is what there is for the agent now, what presses most first. Each
	// message is told once to an incarnation; the same ones come again with the same key.
	Hook(ctx context.Context, who token.Caller, key string) ([]Notice, error)
}

// HookRequest is the body of POST /v1/agent/hook.
type HookRequest struct {
	Key string `json:"key,omitempty"` // what was told under this key is told again; "": nothing is
}

// Notice is something that an agent should know.
type Notice struct {
	Kind string `json:"kind"`         // drain, restart, mail, answer, task
	ID   string `json:"id,omitempty"` // of the message, or the task
	Text string `json:"text"`         // a line; may contain words of others
}

func vitalsRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/agent/hook", agent: true, body: HookRequest{}, answer: []Notice{},
			serve: (*call).hook},
	}
}

func (c *call) hook() error {
	var req HookRequest
	if err := c.body(&req); err != nil {
		return err
	}
	notices, err := c.service.Hook(c.r.Context(), c.caller, req.Key)
	if err != nil {
		return err
	}
	return c.answer(orEmpty(notices))
}

// Hook is Selves.Hook of the agent whose client this is.
func (c *Client) Hook(ctx context.Context, key string) (notices []Notice, err error) {
	return notices, c.call(ctx, "POST", "/agent/hook", nil, HookRequest{key}, &notices)
}
