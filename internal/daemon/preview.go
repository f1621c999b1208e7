package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// Preview says what a daemon of a project would do first, and starts nothing but
// the checks of pools: they are asked, as the number that they print decides what
// there is to do. It is for while no daemon runs; what people have stopped by hand
// is not known then. The end of ctx ends the checks, too.
func Preview(ctx context.Context, file string, logger *slog.Logger) (round api.Round, err error) {
	files := load.New(logger, nil)
	defer func() { err = errors.Join(err, files.Programs.Close()) }()
	loaded := files.Load(file)
	if loaded.Err != nil {
		return round, loaded.Err
	}
	p, err := project.Open(file)
	if err != nil {
		return round, err
	}
	var seen []runtime.Observation
	if _, err := os.Stat(p.Slots()); err == nil {
		if seen, err = p.Observe(ctx, loaded.Tree, logger); err != nil {
			return round, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return round, err
	}
	socket, err := endpoint.Path(p.Dir)
	if err != nil {
		return round, err
	}
	pools := previewPools(ctx, loaded.Tree, seen, socket)
	if ctx.Err() != nil {
		return round, context.Cause(ctx)
	}
	laid := make(map[string][]string, len(pools))
	for _, p := range pools {
		laid[p.Path] = p.Instances()
	}
	f := fleet.New(loaded.Tree.Layout(laid), loaded.Config)
	round = shownRound(reconcile.Preview(f, seen, time.Now()))
	for _, p := range pools {
		round.Pools = append(round.Pools, p.API())
		round.Actions = append(round.Actions, p.Surplus()...)
	}
	return round, nil
}
