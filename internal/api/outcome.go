package api

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Outcomes is how agents say how their work has ended.
type Outcomes interface {
	// Claim records an outcome and returns when it is durable. It is what the
	// agent says, not what is so: nothing happens because of it. The next claim of
	// the same incarnation takes its place.
	Claim(ctx context.Context, who Caller, o outcome.Outcome) error
}

// Claim is an outcome as an agent has claimed it. It may be from a later
// version, or damaged: outcome.New says whether the report is whole.
type Claim struct {
	Incarnation uint64         `json:"incarnation"`
	Time        time.Time      `json:"time"`      // of the last revision
	Revisions   int            `json:"revisions"` // how often it was replaced since it was first made
	Report      outcome.Report `json:"report"`
}

func outcomeRoutes() []route {
	return []route{
		// Twice the bound: JSON may be written with more blanks and escapes than needed.
		{method: "POST", path: "/v1/agent/outcome", agent: true, body: outcome.Report{}, maxBody: 2 * outcome.MaxBytes, serve: (*call).claim},
	}
}

func (c *call) claim() error {
	var r outcome.Report
	if err := c.body(&r); err != nil {
		return err
	}
	o, err := outcome.New(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.service.Claim(c.r.Context(), c.caller, o); err != nil {
		return err
	}
	return c.done()
}

// Claim is Outcomes.Claim of the agent whose token the client has. It may be repeated.
func (c *Client) Claim(ctx context.Context, o outcome.Outcome) error {
	return c.call(ctx, "POST", "/agent/outcome", nil, o, nil)
}
