package api

import (
	"context"
	"fmt"
	"time"
)

// Fires is how runs of agents of Aidefiles are started.
type Fires interface {
	// Fire starts a run of an agent, as one of its triggers does, and returns
	// when it has begun. ErrConflict if none is to begin now, which is an event, too.
	Fire(ctx context.Context, req FireRequest) error
}

// FireRequest is the body of POST /v1/fire.
type FireRequest struct {
	Path string `json:"path"`
	Task string `json:"task,omitempty"` // what is to be done, if there is anything to say
}

// MaxTask bounds FireRequest.Task, in bytes.
const MaxTask = 256 << 10

// Aide is what is particular about an agent of an Aidefile.
type Aide struct {
	State       string     `json:"state"`               // idle, done, running, backing off, given up, stopped, held
	Triggers    []string   `json:"triggers"`            // as the Aidefile spells them
	NextFire    *time.Time `json:"next_fire,omitempty"` // of its schedules
	Restart     string     `json:"restart"`             // always, on-failure, never
	Restarts    int        `json:"consecutive_restarts"`
	MaxRestarts int        `json:"max_restarts"`
	Fired       *time.Time `json:"fired,omitempty"` // when its last run, or chain of runs, was started
	FiredBy     string     `json:"fired_by,omitempty"`
	Task        string     `json:"task,omitempty"`    // the first line of what it was told
	Failing     string     `json:"failing,omitempty"` // why its issues cannot be looked at
	Spent       bool       `json:"spent,omitempty"`   // given up, since its chain of runs has used up its tokens
}

// Because is why it was given up, in words.
func (a Aide) Because() string {
	if a.Spent {
		return "as its chain of runs has used up its tokens"
	}
	return fmt.Sprintf("after %d restarts in a row", a.Restarts)
}

func fireRoutes() []route {
	return []route{{method: "POST", path: "/v1/fire", body: FireRequest{}, maxBody: MaxTask + 4096,
		serve: (*call).fire}}
}

func (c *call) fire() error {
	var req FireRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if req.Path == "" {
		return fmt.Errorf("%w: path is missing", ErrInvalid)
	}
	if err := checkText(req.Path); err != nil {
		return fmt.Errorf("%w: path %w", ErrInvalid, err)
	}
	if len(req.Task) > MaxTask {
		return fmt.Errorf("%w: task has %d bytes, expected at most %d", ErrInvalid, len(req.Task), MaxTask)
	}
	if err := c.service.Fire(c.r.Context(), req); err != nil {
		return err
	}
	return c.done()
}

// Fire implements Fires.
func (c *Client) Fire(ctx context.Context, req FireRequest) error {
	return c.call(ctx, "POST", "/fire", nil, req, nil)
}
