package api

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Patrols is how a fleet is kept as its file says.
type Patrols interface {
	// Reload reads the file now, instead of when its change is noticed, and
	// returns when what differs is done. ErrConflict: it is refused, and the
	// last one stays in force.
	Reload(ctx context.Context) (Reloaded, error)
	// Patrol compares what runs with what is wanted, now instead of when
	// something happens or its interval is over, and returns what there is to
	// do; with dry, nothing of that is done. It does not wait for what it does.
	Patrol(ctx context.Context, dry bool) (Round, error)
}

// PatrolRequest is the body of POST /v1/patrol.
type PatrolRequest struct {
	DryRun bool `json:"dry_run,omitempty"` // only plan
}

// Round is the answer of POST /v1/patrol: what there is to do.
type Round struct {
	Actions []RoundAction `json:"actions"`
	Delays  []RoundDelay  `json:"delays"` // what waits
	Pools   []PoolAt      `json:"pools"`  // and what their checks have said last
}

// RoundAction is something that a round does.
type RoundAction struct {
	Action string   `json:"action"` // stop, suspend, start, renew, drain, end. Readers must expect others.
	Path   string   `json:"path"`
	Cause  string   `json:"cause,omitempty"`  // of a renewal: restart requested, drifted
	Fields []string `json:"fields,omitempty"` // that have drifted
	Reason string   `json:"reason"`
}

// RoundDelay is something that would be done, and waits.
type RoundDelay struct {
	Path  string     `json:"path"`
	For   string     `json:"for,omitempty"`   // a node that is not ready
	Until *time.Time `json:"until,omitempty"` // a limit that has no room
	Cause string     `json:"cause,omitempty"` // of a renewal
}

// Reloaded is the answer of POST /v1/reload: how the file differs from the one
// that was in force.
type Reloaded struct {
	Revision string `json:"revision"` // in force now
	Changed  bool   `json:"changed"`  // it was another one before
	Added    int    `json:"added"`    // agents and supervisors
	Removed  int    `json:"removed"`
	Renewed  int    `json:"renewed"` // agents that were restarted
	// agents that restart when they have finished their work, or when their limit has room
	Later   int `json:"later"`
	Amended int `json:"amended"` // agents that have changed without that
}

func (r Reloaded) String() string {
	if !r.Changed {
		return fmt.Sprintf("revision %.12s, nothing has changed", r.Revision)
	}
	parts := []string{fmt.Sprintf("revision %.12s", r.Revision)}
	for _, p := range []struct {
		n    int
		what string
	}{{r.Added, "added"}, {r.Removed, "removed"}, {r.Renewed, "restarted"}, {r.Later, "to be restarted later"},
		{r.Amended, "changed in place"}} {
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
		{method: "POST", path: "/v1/patrol", body: PatrolRequest{}, answer: Round{}, serve: (*call).patrol},
	}
}

func (c *call) reload() error {
	r, err := c.service.Reload(c.r.Context())
	if err != nil {
		return err
	}
	return c.answer(r)
}

func (c *call) patrol() error {
	var req PatrolRequest
	if err := c.body(&req); err != nil {
		return err
	}
	r, err := c.service.Patrol(c.r.Context(), req.DryRun)
	if err != nil {
		return err
	}
	return c.answer(r)
}

// Patrol implements Patrols.
func (c *Client) Patrol(ctx context.Context, dry bool) (r Round, err error) {
	err = c.call(ctx, "POST", "/patrol", nil, PatrolRequest{dry}, &r)
	return r, err
}

// Reload implements Patrols.
func (c *Client) Reload(ctx context.Context) (r Reloaded, err error) {
	err = c.call(ctx, "POST", "/reload", nil, nil, &r)
	return r, err
}
