package controller

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Preview returns the first actions that a daemon of a project would take. It starts nothing except the
// checks of pools, whose output decides the number of instances. It is for projects without a
// running daemon; stops by hand are not known then. The end of ctx ends the checks, too.
func Preview(ctx context.Context, file string, logger *slog.Logger) (pass pool.Pass, err error) {
	files := load.New(logger, nil)
	defer func() { err = errors.Join(err, files.Programs.Close()) }()
	loaded := files.Load(file)
	if loaded.Err != nil {
		return pass, loaded.Err
	}
	p, err := project.Open(file)
	if err != nil {
		return pass, err
	}
	var seen []runtime.Observation
	if _, err := os.Stat(p.Slots()); err == nil {
		if seen, err = p.Observe(ctx, loaded.Tree, logger); err != nil {
			return pass, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return pass, err
	}
	socket, err := endpoint.Path(p.Dir)
	if err != nil {
		return pass, err
	}
	return pool.Preview(ctx, loaded.Tree, loaded.Config, seen, socket,
		func(path string, template *spec.Agent) (*account.Account, []string, error) {
			as, err := agent.IdentityOf(template, socket)
			if err != nil {
				return nil, nil, err
			}
			return as.User, environOf(as, path, template), nil
		})
}
