package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/patrol"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Preview says what a daemon of a project would do first, and starts nothing.
// It is for while none runs; what people have stopped by hand is not known then.
// Pools have what they have at least: nothing is asked what more they want.
func Preview(ctx context.Context, file string, logger *slog.Logger) (round api.Round, err error) {
	programs := newPrograms(logger, nil)
	defer func() { err = errors.Join(err, programs.close()) }()
	loaded := programs.load(file)
	if loaded.Err != nil {
		return round, loaded.Err
	}
	project, err := OpenProject(file)
	if err != nil {
		return round, err
	}
	f := newFleet(loaded.Tree.Minimal(), loaded.Config)
	observed := make(map[string]*patrol.Observed)
	for _, path := range f.order {
		observed[path] = &patrol.Observed{Path: path, Life: patrol.Kept}
		if f.agents[path] != nil {
			observed[path].Life = patrol.Down
		}
	}
	if _, err := os.Stat(project.Slots()); err == nil {
		if err := project.sight(ctx, f, observed, logger); err != nil {
			return round, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return round, err
	}
	return shownRound(patrol.Plan(f.previewed(), observed, patrol.Trackers{}, time.Now())), nil
}

// sight adds what lives in the runtimes of a project.
func (p Project) sight(ctx context.Context, f *fleet, observed map[string]*patrol.Observed, logger *slog.Logger) (err error) {
	runtimes, end, err := openRuntimes(ctx, p, f.tree, logger, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, rt := range runtimes {
		slots, err := rt.List(ctx)
		if err != nil {
			return fmt.Errorf("looking for what runs in %s: %w", rt.Kind(), err)
		}
		for _, o := range slots {
			a := f.agents[o.Path]
			if above, _, _ := cutLast(o.Path); a == nil && f.nodes[above] != nil && f.nodes[above].Template != nil {
				continue // it is up to the pool what becomes of it
			}
			seen := &patrol.Observed{Path: o.Path, Life: patrol.Unknown}
			switch {
			case o.Life == runtime.Dead:
				continue
			case o.Life == runtime.Alive:
				seen.Life, seen.Ready, seen.Settled = patrol.Running, o.Ready, o.Ready
				if a != nil && o.Fingerprint != "" {
					seen.Print = f.prints[o.Path]
					if o.Fingerprint != a.Fingerprint() {
						seen.Print = spec.Print{Sum: o.Fingerprint, Parts: append(seen.Print.Parts[:len(seen.Print.Parts):len(seen.Print.Parts)], spec.Part{Field: undeclared, Hash: o.Fingerprint})}
					}
				}
			}
			observed[o.Path] = seen
		}
	}
	return nil
}

// previewed is what is wanted, for a plan of agents alone.
func (f *fleet) previewed() []patrol.Desired {
	order := f.tree.Order()
	all := make([]patrol.Desired, 0, len(f.order))
	for _, path := range f.order {
		d := patrol.Desired{Path: path, Suspended: f.suspended(path)}
		if f.agents[path] != nil {
			d.Needs, d.After, d.Print = order.Needs(path), f.after[path], f.prints[path]
		} else {
			d.Suspended = false
		}
		all = append(all, d)
	}
	return all
}
