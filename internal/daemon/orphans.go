package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/farewell"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Stopped is what StopOrphans has done.
type Stopped struct {
	Agents []string // paths, in the order in which they ended
	Orders int      // runs of orders
	Late   []api.Overdue
}

// StopOrphans stops the agents and the runs of orders of a project whose
// controller was killed, the agents as package farewell says. The next controller finds
// an orderly end. The error is a *LockedError if there is a controller after all.
func StopOrphans(ctx context.Context, file string, logger *slog.Logger) (stopped Stopped, err error) {
	project, err := OpenProject(file)
	if err != nil {
		return stopped, err
	}
	if _, err := os.Stat(project.Slots()); errors.Is(err, fs.ErrNotExist) {
		return stopped, nil // nothing ever ran
	}
	lock, err := project.Lock()
	if err != nil {
		return stopped, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	defer func() {
		if err == nil {
			project.ended(nil)
		}
	}()
	tree, _, err := LoadTree(file)
	if err != nil { // what runs has to go, whatever became of the file
		tree = &spec.Tree{Root: &spec.Node{Name: "?"}, Patrol: spec.DefaultPatrol()}
	}
	runtimes, end, err := openRuntimes(ctx, project, tree, logger, nil)
	if err != nil {
		return stopped, err
	}
	defer func() { err = errors.Join(err, end()) }()
	places := make(map[string]runtime.Runtime)
	for _, rt := range runtimes {
		places[rt.Kind()] = rt
	}
	all, err := sightings(ctx, runtimes)
	if err != nil {
		return stopped, err
	}
	// What cannot be told apart is asked to stop, too: evict waits until it is known.
	all = slices.DeleteFunc(all, func(s sighting) bool { return !s.lives() })
	if stopped.Orders, err = endErrands(ctx, project, logger); err != nil {
		return stopped, err
	}
	if err := endChecks(ctx, project); err != nil {
		return stopped, err
	}
	if len(all) == 0 {
		return stopped, nil
	}
	d := dispersal{places: places, gone: make(chan string), sessions: make(map[string][]runtime.Session), failed: make(map[string]error)}
	populated := tree.Populated(paths(all))
	allowed := make(map[string]time.Duration)
	for path, child := range populated.All() {
		if child.Agent != nil {
			allowed[path] = allowanceOf(tree.Patrol, child.Agent)
		}
	}
	var told []event.Event
	d.take(ctx, all)
	stopped.Agents, stopped.Late = d.run(ctx, populated.Order(), func(path string) time.Duration {
		if own, known := allowed[path]; known {
			return own
		}
		return allowanceOf(tree.Patrol, nil)
	})
	for _, path := range stopped.Agents {
		told = append(told, event.Event{
			Time: time.Now(), Type: event.AgentStopped, Path: path, Incarnation: d.sessions[path][0].Observe().Incarnation, Actor: "user",
			Message: fmt.Sprintf("%s stopped: its controller had been killed", path),
		})
	}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(d.failed)) {
		errs = append(errs, fmt.Errorf("stopping %s: %w", path, d.failed[path]))
	}
	if err := settle(ctx, project.keeping(tree.Persistence), logger, told, len(errs) == 0); err != nil {
		errs = append(errs, fmt.Errorf("they are stopped, but that cannot be written down: %w", err))
	}
	return stopped, errors.Join(errs...)
}

// sightings looks at all slots of runtimes.
func sightings(ctx context.Context, runtimes []runtime.Runtime) (all []sighting, err error) {
	for _, rt := range runtimes {
		slots, err := rt.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for what runs in %s: %w", rt.Kind(), err)
		}
		for _, o := range slots {
			all = append(all, sighting{rt.Kind(), o})
		}
	}
	return all, nil
}

// dispersal is the farewell of a fleet that has no controller any more: nobody is
// there to restart anything.
type dispersal struct {
	places   map[string]runtime.Runtime
	sessions map[string][]runtime.Session // by path, in all runtimes
	gone     chan string                  // paths of which all sessions have ended
	failed   map[string]error             // by path
}

// take takes over who lives.
func (d *dispersal) take(ctx context.Context, all []sighting) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, stopTogether)
	for _, o := range all {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			s, err := adoptNow(ctx, d.places[o.kind], o.Path)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				d.sessions[o.Path] = append(d.sessions[o.Path], s)
			case !errors.Is(err, fs.ErrNotExist): // else it has ended meanwhile
				d.failed[o.Path] = err
			}
		})
	}
	wg.Wait()
}

// run stops them and returns who has ended, and who had to be killed for that.
func (d *dispersal) run(ctx context.Context, order *spec.Order, allowance func(string) time.Duration) (ended []string, late []api.Overdue) {
	over := make(chan struct{})
	defer close(over)
	allowed := make(map[string]time.Duration)
	for path, sessions := range d.sessions {
		allowed[path] = allowance(path)
		go func() {
			for _, s := range sessions {
				select {
				case <-s.Done():
				case <-over:
					return
				}
			}
			select {
			case d.gone <- path:
			case <-over:
			}
		}()
	}
	plan, begun := farewell.New(order, allowed, time.Now()), time.Now()
	asked := make(map[string]api.Overdue)
	since := make(map[string]time.Time)
	name := func(path string) { // who had to be killed, by this or by what it runs in
		if o, ok := asked[path]; ok && allowed[path] > 0 {
			delete(asked, path)
			o.Waited = time.Since(since[path]).Seconds()
			late = append(late, o)
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		step := plan.Step(time.Now())
		for _, path := range step.Ask {
			asked[path], since[path] = api.Overdue{Path: path, PID: d.sessions[path][0].Observe().PID}, time.Now()
			for _, s := range d.sessions[path] {
				if p, ok := s.(patient); ok {
					p.StopWithin(allowed[path])
				} else {
					s.Stop()
				}
			}
		}
		for _, path := range step.Kill {
			name(path)
			for _, s := range d.sessions[path] {
				s.Kill()
			}
		}
		for _, path := range step.Left {
			d.failed[path] = &supervisor.AbandonedError{Path: path, Waited: time.Since(begun)}
		}
		if plan.Over() {
			return ended, late
		}
		timer.Stop()
		if !step.Next.IsZero() {
			timer.Reset(time.Until(step.Next))
		}
		select {
		case path := <-d.gone:
			plan.Ended(path)
			ended = append(ended, path)
			if time.Since(since[path]) >= allowed[path] {
				name(path)
			}
		case <-timer.C:
		case <-ctx.Done():
			for path := range d.sessions {
				if !slices.Contains(ended, path) {
					d.failed[path] = context.Cause(ctx)
				}
			}
			return ended, late
		}
	}
}

// paths are those of sightings.
func paths(all []sighting) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range all {
			if !yield(s.Path) {
				return
			}
		}
	}
}

// settle writes down what has become of a fleet without a controller.
func settle(ctx context.Context, project Project, logger *slog.Logger, told []event.Event, all bool) (err error) {
	if project.Database() == "" {
		return nil
	}
	db, err := project.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, err := event.Open(event.Config{Store: db, Logger: logger})
	if err != nil {
		return err
	}
	for i, e := range told {
		if i == len(told)-1 && all {
			log.Append(e, store.Op{Kind: store.Put, Key: orderlyKey, Value: []byte(orderlyEnd)})
			continue
		}
		log.Append(e)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return log.Close(end)
}
