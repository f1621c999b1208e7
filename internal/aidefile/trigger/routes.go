package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// Fire starts a run of an agent, as one of its triggers does, and returns when it has
// begun, or waits for its quota. The error wraps api.ErrConflict if none may begin now.
var Fire = api.Route[FireRequest, Fired]{
	Method: "POST", Path: "/fire", For: api.People, MaxBody: MaxTask + 4096,
	ID: "fire", Summary: "Start a run of an agent with an Aidefile",
	Doc: "Like one of its triggers. The answer comes when the run has begun; 409 if none may begin now, because " +
		"one is in progress or pending, or the agent was stopped by hand.",
	Returns: "Whether the run has begun.",
}

// Fired is the answer of Fire.
type Fired struct {
	_ struct{} `doc:"A run that was started."`

	Waits string `json:"waits,omitempty" doc:"Why it begins later; empty if it has begun."`
}

// FireRequest names the agent to run.
type FireRequest struct {
	_ struct{} `doc:"The agent to run."`

	Path string `json:"path" doc:"The agent." maxLength:"1024"`
	Task string `json:"task,omitempty" doc:"The task; at most 262144 bytes."`
}

// Info describes an agent with an Aidefile.
type Info struct {
	_ struct{} `schema:"Aide" doc:"The state of an agent with an Aidefile."`

	State       string     `json:"state" doc:"idle, done, running, backing off, waiting, given up, stopped, held"`
	Triggers    []string   `json:"triggers" doc:"As the Aidefile spells them."`
	NextFire    *time.Time `json:"next_fire,omitempty" doc:"When its schedules are due next."`
	Restart     string     `json:"restart" doc:"always, on-failure, never"`
	Restarts    int        `json:"consecutive_restarts" doc:"Restarts since its last success."`
	MaxRestarts int        `json:"max_restarts" doc:"The number of restarts after which it is given up."`
	Fired       *time.Time `json:"fired,omitempty" doc:"When its last run, or chain of runs, was started."`
	FiredBy     string     `json:"fired_by,omitempty" doc:"What started it."`
	Task        string     `json:"task,omitempty" doc:"The first line of its task."`
	Failing     string     `json:"failing,omitempty" doc:"Why its issues cannot be listed."`
	Unread      string     `json:"unread,omitempty" doc:"Why what its last run has used is known only in part."`
	Spent       bool       `json:"spent,omitempty" doc:"It was given up because its chain of runs has used up its tokens."`
}

// MaxTask bounds FireRequest.Task, in bytes.
const MaxTask = 256 << 10

// Register adds the handler of the route to a server.
func (m *Manager) Register(s *api.Server) { Fire.Handle(s, m.handleFire) }

func (m *Manager) handleFire(ctx context.Context, _ token.Caller, req FireRequest) (fired Fired, err error) {
	if err := api.CheckPath(req.Path); err != nil {
		return fired, err
	}
	if len(req.Task) > MaxTask {
		return fired, fmt.Errorf("%w: task has %d bytes, expected at most %d", api.ErrInvalid, len(req.Task), MaxTask)
	}
	err = m.Fire(ctx, req.Path, req.Task)
	if retry, ok := errors.AsType[*supervisor.RetryError](err); ok {
		fired.Waits = cmp.Or(retry.Err, error(retry)).Error()
		return fired, nil
	}
	return fired, err
}

// Fire starts a run of an agent with a task, which may be empty. See the route Fire. The error wraps a
// supervisor.RetryError if the run waits for its quota.
func (m *Manager) Fire(ctx context.Context, path, task string) error {
	path = m.Agents.FullPath(path)
	if _, _, err := m.Agents.Locate(path); err != nil {
		return err
	}
	q := manualRequest()
	if task != "" {
		q.Task = task
	}
	if a := m.of(path); a != nil {
		if _, err := a.settings().Arguments(map[string]string{"task": q.Task}); err != nil {
			return fmt.Errorf("%w: %w", api.ErrInvalid, err)
		}
	}
	err := m.fire(ctx, path, q)
	switch {
	case errors.Is(err, ErrSkipped):
		return fmt.Errorf("%w: %s: %w", api.ErrConflict, path, err)
	case errors.Is(err, supervisor.ErrNotFound):
		return fmt.Errorf("%s: %w", path, api.ErrNotFound)
	}
	return err
}
