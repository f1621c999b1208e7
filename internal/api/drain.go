package api

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/coppice-dev/coppice/internal/token"
)

// Drains is how agents are asked to finish what they do before they are stopped.
type Drains interface {
	// Drain asks an agent, with a supervisor all below it, to finish, waits until
	// it says that it has, or for as long as the request allows, and stops it as
	// Stop does. It returns when that is done; the drain goes on if ctx ends,
	// and if the daemon does. One that is drained already is waited for.
	Drain(ctx context.Context, req DrainRequest) error
	// Draining is the drain of the agent that calls; nil if there is none.
	Draining(ctx context.Context, who token.Caller) (*Drain, error)
	// AckDrain says that the agent has finished. ErrConflict without a request.
	AckDrain(ctx context.Context, who token.Caller) error
}

// DefaultDrain is how long an agent may take to finish by default.
const DefaultDrain = 5 * time.Minute

// MaxDrain bounds the time that an agent may take to finish.
const MaxDrain = 7 * 24 * time.Hour

// DrainRequest is the body of POST /v1/drain.
type DrainRequest struct {
	Path    string  `json:"path"`
	Timeout float64 `json:"timeout_seconds,omitempty"` // DefaultDrain if 0, MaxDrain at most
	Reason  string  `json:"reason,omitempty"`
	// Again: the request was made before, and its answer was lost. No agent is
	// drained again; ErrConflict if the drain was ended since.
	Again bool `json:"again,omitempty"`
}

// Drain says that an agent is to finish.
type Drain struct {
	Reason   string  `json:"reason,omitempty"`
	Left     float64 `json:"left_seconds"`       // until it is stopped in any case
	Finished bool    `json:"finished,omitempty"` // as it says
}

// DrainCheck is the answer of GET /v1/agent/drain.
type DrainCheck struct {
	Drain *Drain `json:"drain,omitempty"` // nil: go on
}

func drainRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/drain", body: DrainRequest{}, serve: (*call).drain},
		{method: "GET", path: "/v1/agent/drain", agent: true, answer: DrainCheck{}, serve: (*call).draining},
		{method: "POST", path: "/v1/agent/drain/ack", agent: true, serve: (*call).ackDrain},
	}
}

func (c *call) drain() error {
	var req DrainRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if req.Path == "" {
		return fmt.Errorf("%w: path is missing", ErrInvalid)
	}
	if err := checkText(req.Path); err != nil {
		return fmt.Errorf("%w: path %w", ErrInvalid, err)
	}
	if math.IsNaN(req.Timeout) || req.Timeout < 0 || req.Timeout > MaxDrain.Seconds() {
		return fmt.Errorf("%w: timeout_seconds is %g, expected 0 to %g", ErrInvalid, req.Timeout, MaxDrain.Seconds())
	}
	if err := c.service.Drain(c.r.Context(), req); err != nil {
		return err
	}
	return c.done()
}

func (c *call) draining() error {
	d, err := c.service.Draining(c.r.Context(), c.caller)
	if err != nil {
		return err
	}
	return c.answer(DrainCheck{d})
}

func (c *call) ackDrain() error {
	if err := c.service.AckDrain(c.r.Context(), c.caller); err != nil {
		return err
	}
	return c.done()
}

// Drain implements Drains.
func (c *Client) Drain(ctx context.Context, req DrainRequest) error {
	return c.call(ctx, "POST", "/drain", nil, req, nil)
}

// Draining is Drains.Draining of the agent whose client this is.
func (c *Client) Draining(ctx context.Context) (*Drain, error) {
	var check DrainCheck
	err := c.call(ctx, "GET", "/agent/drain", nil, nil, &check)
	return check.Drain, err
}

// AckDrain is Drains.AckDrain of the agent whose client this is.
func (c *Client) AckDrain(ctx context.Context) error {
	return c.call(ctx, "POST", "/agent/drain/ack", nil, nil, nil)
}
