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
	"slices"

	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/api"
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
	// Tree returns the tree as declared, and Fleet the one with the instances of pools.
	Tree, Fleet func() *spec.Tree
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
	worker.Mine.Handle(s, func(_ context.Context, who token.Caller, _ api.None) (worker.Assignment, error) {
		if mine, ok := assignment(w.Fleet(), who.Path); ok {
			return mine, nil
		}
		return worker.Assignment{}, fmt.Errorf("%w: %s works in no pipeline", api.ErrNotFound, who.Path)
	})
}

// assignment returns the assignment of the agent at a path; ok is false if it works in no pipeline. A worker is one of
// the same tasks if a task can be claimed by both, and both merge it into the same branch.
func assignment(t *spec.Tree, path string) (mine worker.Assignment, ok bool) {
	agents := make(map[string]*spec.Agent) // with a pipeline; those of a pool by the path of the pool as well
	for at, c := range t.All() {
		a := c.Agent
		if c.Node != nil {
			a = c.Node.Template
		}
		if a != nil && a.Pipeline != nil {
			agents[at] = a
		}
	}
	self := agents[path]
	if self == nil {
		return mine, false
	}
	mine.Settings = *self.Pipeline
	for at, a := range agents {
		inPool := a.Instance.Pool != "" // which is named in place of its instances
		sameTasks := slices.ContainsFunc(a.TaskPools(at), func(pool string) bool {
			return slices.Contains(self.TaskPools(path), pool)
		})
		if !inPool && sameTasks && a.Pipeline.Repository == mine.Settings.Repository &&
			a.Pipeline.Branch == mine.Settings.Branch {
			mine.Workers = append(mine.Workers, at)
		}
	}
	slices.Sort(mine.Workers)
	return mine, true
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
	all, err := callfile.Read(w.file(path))
	if err != nil {
		w.Logger.Warn("cannot read what is known of the calls of a worker", "path", path, "error", err)
	}
	return all
}

func (w *Workers) file(path string) string { return filepath.Join(w.Dir(path), callfile.Name) }
