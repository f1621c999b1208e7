package api

import (
	"context"
	"fmt"
	"strings"
)

// Patrols is how a fleet is kept as its file says.
type Patrols interface {
	// Reload reads the file now, instead of when its change is noticed, and
	// returns when what differs is done. ErrConflict: it is refused, and the
	// last one stays in force.
	Reload(ctx context.Context) (Reloaded, error)
}

// Reloaded is the answer of POST /v1/reload: how the file differs from the one
// that was in force.
type Reloaded struct {
	Revision string `json:"revision"` // in force now
	Changed  bool   `json:"changed"`  // it was another one before
	Added    int    `json:"added"`    // agents and supervisors
	Removed  int    `json:"removed"`
	Renewed  int    `json:"renewed"` // agents that were started again
	Amended  int    `json:"amended"` // agents that have changed without that
}

func (r Reloaded) String() string {
	if !r.Changed {
		return fmt.Sprintf("revision %.12s, nothing has changed", r.Revision)
	}
	parts := []string{fmt.Sprintf("revision %.12s", r.Revision)}
	for _, p := range []struct {
		n    int
		what string
	}{{r.Added, "added"}, {r.Removed, "removed"}, {r.Renewed, "started again"}, {r.Amended, "changed in place"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 1 {
		parts = append(parts, "no agent differs")
	}
	return strings.Join(parts, ", ")
}

func patrolRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/reload", answer: Reloaded{}, serve: (*call).reload},
	}
}

func (c *call) reload() error {
	r, err := c.service.Reload(c.r.Context())
	if err != nil {
		return err
	}
	return c.answer(r)
}

// Reload implements Patrols.
func (c *Client) Reload(ctx context.Context) (r Reloaded, err error) {
	err = c.call(ctx, "POST", "/reload", nil, nil, &r)
	return r, err
}
