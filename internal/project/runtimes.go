package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
	"github.com/coppice-dev/coppice/internal/spec"
)

// OpenRuntimes opens all runtimes of a project, including those that its file does not use, as agents
// may still run there. output may be nil. The caller must call end.
func (p Project) OpenRuntimes(ctx context.Context, tree *spec.Tree, l *slog.Logger,
	output func(string, uint64, proc.Line)) (all []runtime.Runtime, end func() error, err error) {
	until := p.Deadline()
	shims, err := shim.Open(shim.Options{
		Dir: p.Slots(), Files: p.RunRequests(), Deadline: until, PerShim: tree.Patrol.PerShim, Output: output,
		Logger: l,
	})
	if err != nil {
		return nil, nil, err
	}
	sessions, err := tmux.Open(tmux.Options{Dir: p.Tmux(), Deadline: until, Output: output, Logger: l})
	if err == nil {
		if err = needTmux(ctx, sessions, tree); err != nil {
			err = errors.Join(err, sessions.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, shims.Close())
	}
	return []runtime.Runtime{shims, sessions}, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), quitTime)
		defer cancel()
		return errors.Join(shims.Quit(ctx), sessions.Quit(ctx), shims.Close(), sessions.Close())
	}, nil
}

// quitTime limits the shutdown of the runtimes.
const quitTime = 5 * time.Second

// needTmux returns an error if tmux is missing and needed, by agents of the file or by a tmux server
// of the project that is still running.
func needTmux(ctx context.Context, r *tmux.Runtime, tree *spec.Tree) error {
	wants := InTmux(tree)
	server, lives := r.Server()
	if len(wants) == 0 && !lives {
		return nil
	}
	_, err := tmux.Version(ctx)
	switch {
	case err == nil:
		return nil
	case len(wants) > 0:
		return fmt.Errorf("%s in tmux: %w", strings.Join(wants, ", "), err)
	}
	err = fmt.Errorf("agents may still run in the tmux server of this project, and only tmux can tell: %w", err)
	if server > 0 {
		err = fmt.Errorf("%w; or end the server and them with: kill %d", err, server)
	}
	return err
}

// InTmux returns the paths of the agents that run in tmux.
func InTmux(tree *spec.Tree) []string {
	var paths []string
	for path, c := range tree.All() {
		if a := c.Declared(); a != nil && a.Runtime == spec.Tmux {
			paths = append(paths, path)
		}
	}
	return paths
}

// observeTime limits Observe.
const observeTime = 30 * time.Second

// Observe returns the slots that may have a running agent, for a project without a daemon.
func (p Project) Observe(ctx context.Context, tree *spec.Tree, logger *slog.Logger) (seen []runtime.Observation,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	runtimes, end, err := p.OpenRuntimes(ctx, tree, logger, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, rt := range runtimes {
		slots, err := rt.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for what runs in %s: %w", rt.Kind(), err)
		}
		seen = append(seen, slices.DeleteFunc(slots,
			func(o runtime.Observation) bool { return o.Life == runtime.Dead })...)
	}
	return seen, nil
}

// ExistingRuntimes opens the runtimes that have slots, to read them.
func (p Project) ExistingRuntimes(l *slog.Logger) (all []runtime.Runtime, err error) {
	for _, at := range []struct {
		dir  string
		open func(dir string) (runtime.Runtime, error)
	}{
		{p.Slots(), func(dir string) (runtime.Runtime, error) {
			return shim.Open(shim.Options{Dir: dir, WithoutGroups: true, Logger: l})
		}},
		{p.Tmux(), func(dir string) (runtime.Runtime, error) { return tmux.Open(tmux.Options{Dir: dir, Logger: l}) }},
	} {
		if _, err := os.Stat(at.dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		rt, err := at.open(at.dir)
		if err != nil {
			return all, err
		}
		all = append(all, rt)
	}
	return all, nil
}
