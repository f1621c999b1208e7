package api

import (
	"context"
	"fmt"
)

// Farewells is how people learn how a fleet was stopped.
type Farewells interface {
	// Farewell waits until all agents have been stopped because of Down, and
	// tells who did not end in time.
	Farewell(ctx context.Context) (Farewell, error)
}

// Farewell is how the agents of a fleet were stopped.
type Farewell struct {
	Overdue []Overdue `json:"overdue"` // had to be killed
}

// Overdue is an agent that was asked to end and did not in the time that it had.
// It is also the data of event.AgentOverdue.
type Overdue struct {
	Path   string  `json:"path"`
	PID    int     `json:"pid"` // 0 if it had ended when it was looked at
	Waited float64 `json:"waited_seconds"`
}

// Who is the agent with its process, unless that had ended when it was looked at.
func (o Overdue) Who() string {
	if o.PID == 0 {
		return o.Path
	}
	return fmt.Sprintf("%s (process %d)", o.Path, o.PID)
}

func farewellRoutes() []route {
	return []route{{method: "GET", path: "/v1/farewell", answer: Farewell{}, serve: (*call).farewell}}
}

func (c *call) farewell() error {
	f, err := c.service.Farewell(c.r.Context())
	if err != nil {
		return err
	}
	return c.answer(f)
}

// Farewell implements Farewells.
func (c *Client) Farewell(ctx context.Context) (f Farewell, err error) {
	err = c.call(ctx, "GET", "/farewell", nil, nil, &f)
	return f, err
}
