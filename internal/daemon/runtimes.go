package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/inproc"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
	"github.com/coppice-dev/coppice/internal/spec"
)

// openRuntimes opens all runtimes of a project, also those that its file does not name: agents may
// still run there. output may be nil. The caller calls end last.
func openRuntimes(ctx context.Context, p Project, tree *spec.Tree, l *slog.Logger,
	output func(string, uint64, proc.Line)) (all []runtime.Runtime, end func() error, err error) {
	shims, err := shim.Open(shim.Options{Dir: p.Slots(), Output: output, Logger: l})
	if err != nil {
		return nil, nil, err
	}
	sessions, err := tmux.Open(tmux.Options{Dir: p.Tmux(), Output: output, Logger: l})
	if err == nil {
		if err = needTmux(ctx, sessions, tree); err != nil {
			err = errors.Join(err, sessions.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, shims.Close())
	}
	within, err := inproc.Open(inproc.Options{Dir: p.Inside(), Output: output})
	if err != nil {
		return nil, nil, errors.Join(err, sessions.Close(), shims.Close())
	}
	return []runtime.Runtime{shims, sessions, within}, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		return errors.Join(shims.Quit(ctx), sessions.Quit(ctx), within.Close(), shims.Close(), sessions.Close())
	}, nil
}

// needTmux returns an error if tmux is missing and needed: by agents of the file, or for a server that
// was started for the project and has not ended.
func needTmux(ctx context.Context, r *tmux.Runtime, tree *spec.Tree) error {
	wants := inTmux(tree)
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

// inTmux returns the paths of the agents that run in tmux.
func inTmux(tree *spec.Tree) []string {
	var paths []string
	for path, c := range tree.All() {
		if a := c.Declared(); a != nil && a.Runtime == spec.Tmux {
			paths = append(paths, path)
		}
	}
	return paths
}
