package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// StopOrphans stops the agents of a project whose controller was killed, all at
// once, and returns their paths in the reverse order of the file. The next controller finds
// an orderly end. The error is a *LockedError if there is a controller after all.
func StopOrphans(ctx context.Context, file string, logger *slog.Logger) (stopped []string, err error) {
	project, err := OpenProject(file)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(project.Slots()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing ever ran
	}
	lock, err := project.Lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	defer func() {
		if err == nil {
			project.ended(nil)
		}
	}()
	tree, _, err := LoadTree(file)
	if err != nil { // what runs has to go, whatever became of the file
		tree = &spec.Tree{Root: &spec.Node{Name: "?"}}
	}
	runtimes, end, err := openRuntimes(ctx, project, tree, logger, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	places := make(map[string]runtime.Runtime)
	var all []sighting
	for _, rt := range runtimes {
		places[rt.Kind()] = rt
		slots, err := rt.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for what runs in %s: %w", rt.Kind(), err)
		}
		for _, o := range slots {
			// What cannot be told apart is asked to stop, too: evict waits until it is known.
			if o.Life != runtime.Dead {
				all = append(all, sighting{rt.Kind(), o})
			}
		}
	}
	if err := endErrands(ctx, project, logger); err != nil {
		return nil, err
	}
	if err := endChecks(ctx, project); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, nil
	}
	grace, order := make(map[string]time.Duration), make(map[string]int)
	for path, child := range tree.Populated(paths(all)).All() {
		if child.Agent != nil {
			grace[path], order[path] = child.Agent.Shutdown.Grace, len(order)+1
		}
	}
	slices.SortStableFunc(all, func(a, b sighting) int { return order[b.Path] - order[a.Path] })
	var errs []error
	var told []event.Event
	ended := make([]error, len(all))
	var wg sync.WaitGroup
	for i, o := range all { // all at once: nobody is there to restart what depends on something
		patience, known := grace[o.Path]
		if !known {
			patience = supervisor.DefaultShutdown
		}
		wg.Go(func() { ended[i] = evict(ctx, places[o.kind], o.Path, patience) })
	}
	wg.Wait()
	for i, o := range all {
		if err := ended[i]; err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", o.Path, err))
			continue
		}
		stopped = append(stopped, o.Path)
		told = append(told, event.Event{
			Time: time.Now(), Type: event.AgentStopped, Path: o.Path, Incarnation: o.Incarnation, Actor: "user",
			Message: fmt.Sprintf("%s stopped: its controller had been killed", o.Path),
		})
	}
	if err := settle(ctx, project.keeping(tree.Persistence), logger, told, len(errs) == 0); err != nil {
		errs = append(errs, fmt.Errorf("they are stopped, but that cannot be written down: %w", err))
	}
	return stopped, errors.Join(errs...)
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
