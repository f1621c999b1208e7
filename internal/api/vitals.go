package api

import (
	"context"

	"github.com/coppice-dev/coppice/internal/token"
)

// Health serves what an agent says of its own health. The daemon cuts text to
// MaxNote bytes and makes it plain: what an agent says is a claim.
type Health interface {
	// Ready says that the agent has started. ErrConflict if something else
	// decides that; no error if it is ready already.
	Ready(ctx context.Context, who token.Caller) error
	// Heartbeat says that it lives and, with a Beat that is not empty, how far it is.
	Heartbeat(ctx context.Context, who token.Caller, b Beat) error
}

// Selves serves what an agent asks for itself. Text is treated as in Health.
type Selves interface {
	// RequestRestart asks for another incarnation, which counts as no failure.
	// It returns when it is certain that it will come. ErrConflict while the agent is drained.
	RequestRestart(ctx context.Context, who token.Caller, reason string) error
	// Hook is what there is for the agent now, what presses most first. Each
	// message is told once to an incarnation; the same ones come again with the same key.
	Hook(ctx context.Context, who token.Caller, key string) ([]Notice, error)
}

// MaxNote bounds notes and reasons, in bytes.
const MaxNote = 256

// Beat is a heartbeat. What is left away is as it was said last.
type Beat struct {
	Progress *int64 `json:"progress,omitempty"`
	Note     string `json:"note,omitempty"`
}

// RestartRequest is the body of POST /v1/agent/restart.
type RestartRequest struct {
	Reason string `json:"reason"`
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

// Vitals is how an agent gets on.
type Vitals struct {
	// since the last sign of it; nil if there was none yet
	Heartbeat        *float64 `json:"heartbeat_age_seconds,omitempty"`
	HeartbeatTimeout float64  `json:"heartbeat_timeout_seconds,omitempty"`
	Progress         *int64   `json:"progress,omitempty"` // as it claims
	Note             string   `json:"note,omitempty"`
	ProgressAge      float64  `json:"progress_age_seconds,omitempty"` // for which it has claimed the same, or nothing
	ProgressTimeout  float64  `json:"progress_timeout_seconds,omitempty"`
	Unresponsive     bool     `json:"unresponsive,omitempty"` // longer than it may be
	Waiting          bool     `json:"waiting,omitempty"`      // for a person, while which it may be silent
}

func vitalsRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/agent/ready", agent: true, serve: (*call).ready},
		{method: "POST", path: "/v1/agent/heartbeat", agent: true, body: Beat{}, serve: (*call).heartbeat},
		{method: "POST", path: "/v1/agent/restart", agent: true, body: RestartRequest{}, serve: (*call).requestRestart},
		{method: "POST", path: "/v1/agent/hook", agent: true, body: HookRequest{}, answer: []Notice{},
			serve: (*call).hook},
	}
}

func (c *call) ready() error {
	if err := c.service.Ready(c.r.Context(), c.caller); err != nil {
		return err
	}
	return c.done()
}

func (c *call) heartbeat() error {
	var b Beat
	if err := c.body(&b); err != nil {
		return err
	}
	if err := c.service.Heartbeat(c.r.Context(), c.caller, b); err != nil {
		return err
	}
	return c.done()
}

func (c *call) requestRestart() error {
	var req RestartRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if err := c.service.RequestRestart(c.r.Context(), c.caller, req.Reason); err != nil {
		return err
	}
	return c.done()
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

// Ready is Health.Ready of the agent whose client this is.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, "POST", "/agent/ready", nil, nil, nil)
}

// Heartbeat is Health.Heartbeat of the agent whose client this is.
func (c *Client) Heartbeat(ctx context.Context, b Beat) error {
	return c.call(ctx, "POST", "/agent/heartbeat", nil, b, nil)
}

// RequestRestart is Selves.RequestRestart of the agent whose client this is.
func (c *Client) RequestRestart(ctx context.Context, reason string) error {
	return c.call(ctx, "POST", "/agent/restart", nil, RestartRequest{reason}, nil)
}

// Hook is Selves.Hook of the agent whose client this is.
func (c *Client) Hook(ctx context.Context, key string) (notices []Notice, err error) {
	return notices, c.call(ctx, "POST", "/agent/hook", nil, HookRequest{key}, &notices)
}
