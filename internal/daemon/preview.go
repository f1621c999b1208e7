package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/reconcile/hash"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Preview says what a daemon of a project would do first, and starts nothing but
// the checks of pools: they are asked, as the number that they print decides what
// there is to do. It is for while no daemon runs; what people have stopped by hand
// is not known then. The end of ctx ends the checks, too.
func Preview(ctx context.Context, file string, logger *slog.Logger) (round api.Round, err error) {
	files := newLoader(logger, nil)
	defer func() { err = errors.Join(err, files.programs.Close()) }()
	loaded := files.load(file)
	if loaded.Err != nil {
		return round, loaded.Err
	}
	project, err := OpenProject(file)
	if err != nil {
		return round, err
	}
	var seen []runtime.Observation
	if _, err := os.Stat(project.Slots()); err == nil {
		if seen, err = project.sight(ctx, loaded.Tree, logger); err != nil {
			return round, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return round, err
	}
	socket, err := api.SocketPath(project.Dir)
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
	round = shownRound(reconcile.Plan(previewed(f), sighted(f, seen), reconcile.InFlight{}, time.Now()))
	for _, p := range pools {
		round.Pools = append(round.Pools, p.API())
		round.Actions = append(round.Actions, p.Surplus()...)
	}
	return round, nil
}

// sightTime bounds the look at what runs without a daemon.
const sightTime = 30 * time.Second

// sight is what lives in the runtimes of a project, or may.
func (p Project) sight(ctx context.Context, tree *spec.Tree, logger *slog.Logger) (seen []runtime.Observation,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	runtimes, end, err := openRuntimes(ctx, p, tree, logger, nil)
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

// sighted is what the patrol would observe. What is in a pool that does not
// want it is not part of it: that is up to the pool.
func sighted(f *fleet.Fleet, seen []runtime.Observation) map[string]*reconcile.Observed {
	observed := make(map[string]*reconcile.Observed, len(f.Order))
	for _, path := range f.Order {
		observed[path] = &reconcile.Observed{Path: path, Phase: reconcile.Managed}
		switch a := f.Agents[path]; {
		case hasAidefile(a):
			observed[path].Phase = reconcile.Completed // what starts it is its trigger
		case a != nil:
			observed[path].Phase = reconcile.Pending
		}
	}
	for _, o := range seen {
		a := f.Agents[o.Path]
		if above, _, _ := cutLast(o.Path); a == nil && f.Nodes[above] != nil && f.Nodes[above].Template != nil {
			continue
		}
		at := &reconcile.Observed{Path: o.Path, Phase: reconcile.Unknown}
		if o.Life == runtime.Alive {
			at.Phase, at.Ready, at.Settled = reconcile.Running, o.Ready, o.Ready
			if a != nil && o.SpecHash != "" {
				at.Hash = f.Hashes[o.Path]
				if o.SpecHash != at.Hash.Sum {
					at.Hash = hash.OtherThan(at.Hash, o.SpecHash)
				}
			}
		}
		observed[o.Path] = at
	}
	return observed
}

// previewed is what is wanted, for a plan of agents alone.
func previewed(f *fleet.Fleet) []reconcile.Desired {
	order := f.Tree.StartOrder()
	all := make([]reconcile.Desired, 0, len(f.Order))
	for _, path := range f.Order {
		d := reconcile.Desired{Path: path, Suspended: f.Suspended(path)}
		if f.Agents[path] != nil {
			d.Needs, d.Hash = order.Needs(path), f.Hashes[path]
			for d.After = f.After[path]; d.After != "" && f.Suspended(d.After); {
				d.After = f.After[d.After]
			}
		} else {
			d.Suspended = false
		}
		all = append(all, d)
	}
	return all
}
