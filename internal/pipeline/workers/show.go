package workers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/internal/token"
)

// lastAttempts is the number of attempts in a Detail.
const lastAttempts = 10

// RegisterReadOnly adds the handlers that work without a daemon.
func (w *Workers) RegisterReadOnly(s *api.Server) {
	List.Handle(s, func(ctx context.Context, _ token.Caller, _ api.None) ([]Info, error) { return w.list(ctx) })
	Get.Handle(s, func(ctx context.Context, _ token.Caller, req Name) (Detail, error) { return w.get(ctx, req.Name) })
}

// pipelines returns the declared agents with a pipeline, by their paths in the project.
func (w *Workers) pipelines() map[string]*spec.Agent {
	tree := w.Tree()
	all := make(map[string]*spec.Agent)
	for path, c := range tree.All() {
		if a := c.Declared(); a != nil && a.Pipeline != nil && a.Instance == (spec.Instance{}) {
			all[strings.TrimPrefix(path, tree.Root.Name+"/")] = a
		}
	}
	return all
}

// find returns the path in the project of the pipeline that a caller means.
func (w *Workers) find(name string, all map[string]*spec.Agent) (string, error) {
	project := w.Tree().Root.Name
	name = strings.TrimPrefix(strings.Trim(name, "/"), project+"/")
	if all[name] != nil {
		return name, nil
	}
	paths := slices.Sorted(maps.Keys(all))
	var named []string
	for _, path := range paths {
		if all[path].Name == name {
			named = append(named, path)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		return "", fmt.Errorf("%w: %.100q is the name of several pipelines: %s", api.ErrConflict, name,
			strings.Join(named, ", "))
	}
	if hint := suggest.Nearest(name, paths); hint != "" {
		return "", fmt.Errorf("%w: no pipeline %.100q; did you mean %q?", api.ErrNotFound, name, hint)
	}
	return "", fmt.Errorf("%w: no pipeline %.100q; coppice pipeline ls lists them", api.ErrNotFound, name)
}

func (w *Workers) list(ctx context.Context) ([]Info, error) {
	declared := w.pipelines()
	all := make([]Info, 0, len(declared))
	for _, path := range slices.Sorted(maps.Keys(declared)) {
		info, _, err := w.info(ctx, path, declared[path])
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

func (w *Workers) get(ctx context.Context, name string) (d Detail, err error) {
	declared := w.pipelines()
	path, err := w.find(name, declared)
	if err != nil {
		return d, err
	}
	a := declared[path]
	if d.Pipeline, d.Workers, err = w.info(ctx, path, a); err != nil {
		return d, err
	}
	d.Settings, d.Unconfined = *a.Pipeline, unconfined(*a.Pipeline, landlock.Supported())
	for _, n := range pipeline.Names() {
		stage := Stage{Name: n.String(), Worktree: a.Pipeline.Of(n).WritesTree(n)}
		if cli := a.Pipeline.Of(n).CommandLine(); cli != agentcli.Plain {
			stage.CLI, stage.Homes = cli, pipeline.Homes(cli)
		}
		d.Stages = append(d.Stages, stage)
	}
	d.Attempts, err = w.Tasks.LastAttempts(ctx, taskPool(a), lastAttempts)
	return d, err
}

// taskPool returns the pool whose tasks a pipeline takes.
func taskPool(a *spec.Agent) string { return cmp.Or(a.Pipeline.Tasks, a.Name) }

// info describes a pipeline, with its workers.
func (w *Workers) info(ctx context.Context, path string, a *spec.Agent) (Info, []Worker, error) {
	workers, err := w.Nodes(ctx, w.Tree().Root.Name+"/"+path)
	if err != nil {
		return Info{}, nil, err
	}
	info := Info{
		Name: path, Workers: len(workers),
		Mode: a.Pipeline.Mode, Repository: a.Pipeline.Repository, Branch: a.Pipeline.Branch,
	}
	for i, one := range workers {
		if one.Running {
			workers[i].At = w.progress(one.Path, one.Incarnation)
		}
		if workers[i].At != nil {
			info.AtWork++
		}
	}
	info.Tasks, err = w.Tasks.PoolTasks(ctx, taskPool(a))
	return info, workers, err
}

// progress returns what a running incarnation of a worker works at; nil if that is nothing, or not known.
func (w *Workers) progress(path string, incarnation uint64) *progress.Progress {
	p, err := progress.Read(w.Dir(path), incarnation)
	if err != nil {
		w.Logger.Warn("cannot read what a worker works at", "path", path, "error", err)
	}
	return p
}

// Explain returns what there is to say of an agent if it is a worker, one fact in each line. incarnation is 0 if it
// does not run.
func (w *Workers) Explain(path string, incarnation uint64) (facts []string) {
	a := w.Agent(path)
	if a == nil || a.Pipeline == nil {
		return nil
	}
	if incarnation != 0 {
		if p := w.progress(path, incarnation); p != nil {
			facts = append(facts, workText(*p, time.Now()))
		}
	}
	return append(facts, writesText(*a.Pipeline, unconfined(*a.Pipeline, landlock.Supported())))
}

// workText says what a worker works at.
func workText(p progress.Progress, now time.Time) string {
	stage := "prepares its worktree"
	if p.Stage != "" {
		stage = "is in the stage " + p.Stage
	}
	text := fmt.Sprintf("it works at %s, attempt %d, and %s for %s", p.Task, p.Attempt, stage,
		timespan.Short(max(0, now.Sub(p.Since)).Truncate(time.Second)))
	if p.Mode != "" {
		text += ", in " + p.Mode + " mode"
	}
	return text
}

// unconfined returns why nothing enforces where stages may write; empty if the kernel does.
func unconfined(s pipeline.Settings, supported error) string {
	switch {
	case slices.Contains(s.Writable, "/"):
		return "read_write_paths has /"
	case supported != nil:
		return supported.Error()
	}
	return ""
}

// writesText says where the stages of a pipeline may write.
func writesText(s pipeline.Settings, unconfined string) string {
	if unconfined != "" && (s.Writable == nil || slices.Contains(s.Writable, "/")) {
		return "its stages may write wherever their user may: " + unconfined
	}
	places := []string{"their worktree (not plan and security)", "TMPDIR", "XDG_CACHE_HOME",
		"the directories of their command lines"}
	text := "its stages may write only to " + strings.Join(append(places, s.Writable...), ", ")
	if len(s.ReadOnly) > 0 {
		text += "; not to " + strings.Join(s.ReadOnly, ", ")
	}
	if unconfined != "" {
		return text + "; none can run, as nothing can enforce that: " + unconfined
	}
	return text + "; the kernel enforces that"
}
