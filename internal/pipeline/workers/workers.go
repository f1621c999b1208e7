// Package workers is the daemon's side of the workers of pipelines: how they are started, the settings that they ask
// for, the calls of models that they have made, and what is shown of them.
package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/pipeline/worker"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

// Workers are the workers of the pipelines of a project.
type Workers struct {
	Logger *slog.Logger
	// Dir returns the directory of the files of an agent.
	Dir func(path string) string
	// Agent returns an agent of the fleet; nil if there is none at the path.
	Agent func(path string) *spec.Agent
	// Tree returns the tree as declared.
	Tree func() *spec.Tree
	// Nodes returns the agents at a path and below it, in order.
	Nodes func(ctx context.Context, path string) ([]Worker, error)
	Tasks Tasks
}

// Tasks answers what is known of the tasks of a pool.
type Tasks interface {
	PoolTasks(ctx context.Context, pool string) (task.PoolTasks, error)
	// LastAttempts returns the last attempts that have ended, at most n, the latest first.
	LastAttempts(ctx context.Context, pool string, n int) ([]task.Tried, error)
}

// Register adds all handlers to a server.
func (w *Workers) Register(s *api.Server) {
	w.RegisterReadOnly(s)
	worker.Mine.Handle(s, func(_ context.Context, who token.Caller, _ api.None) (pipeline.Settings, error) {
		if a := w.Agent(who.Path); a != nil && a.Pipeline != nil {
			return *a.Pipeline, nil
		}
		return pipeline.Settings{}, fmt.Errorf("%w: %s works in no pipeline", api.ErrNotFound, who.Path)
	})
}

// Argv returns the command of a worker.
func (w *Workers) Argv(path string) []string { return worker.Argv("/proc/self/exe", w.Dir(path)) }

// Launch prepares the files of an agent before an incarnation starts: what is known of the calls of the one before has
// been counted.
func (w *Workers) Launch(who token.Caller, a *spec.Agent) {
	if a.Pipeline == nil {
		return
	}
	err := os.MkdirAll(w.Dir(who.Path), 0o700)
	if err == nil {
		err = errors.Join(callfile.Remove(w.file(who.Path)), progress.Remove(w.Dir(who.Path)))
	}
	if err != nil {
		w.Logger.Warn("cannot prepare the files of a worker", "path", who.Path, "error", err)
	}
}

// Calls returns what is known of the calls of the last incarnation of a worker.
func (w *Workers) Calls(path string) callfile.Records {
	all, err := callfile.Read(w.file(path), time.Time{})
	if err != nil {
		w.Logger.Warn("cannot read what is known of the calls of a worker", "path", path, "error", err)
	}
	return all
}

func (w *Workers) file(path string) string { return filepath.Join(w.Dir(path), callfile.Name) }
