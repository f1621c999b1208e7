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

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Stopped is what StopOrphans has done.
type Stopped struct {
	Agents []string // paths, in the order in which they ended
	Orders int      // runs of orders
	Late   []api.Overdue
}

// StopOrphans stops the agents and the runs of orders of a project whose
// controller was killed, the agents as package shutdown says. The next controller finds
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
	all, err := agent.ListSlots(ctx, runtimes)
	if err != nil {
		return stopped, err
	}
	// What cannot be told apart is asked to stop, too: evict waits until it is known.
	all = slices.DeleteFunc(all, func(s agent.Slot) bool { return !s.Lives() })
	if stopped.Orders, err = endJobs(ctx, project, logger); err != nil {
		return stopped, err
	}
	if err := endChecks(ctx, project); err != nil {
		return stopped, err
	}
	if len(all) == 0 {
		return stopped, nil
	}
	d := dispersal{places: places, sessions: make(map[string][]runtime.Session), failed: make(map[string]error)}
	populated := tree.Populated(paths(all))
	allowed := make(map[string]time.Duration)
	for path, child := range populated.All() {
		if child.Agent != nil {
			allowed[path] = graceOf(tree.Patrol, child.Agent)
		}
	}
	var told []event.Event
	d.take(ctx, all)
	stopped.Agents, stopped.Late = d.run(ctx, populated, func(path string) time.Duration {
		if own, known := allowed[path]; known {
			return own
		}
		return graceOf(tree.Patrol, nil)
	})
	for _, path := range stopped.Agents {
		told = append(told, event.Event{
			Time: time.Now(), Type: event.AgentStopped, Path: path,
			Incarnation: d.sessions[path][0].Observe().Incarnation, Actor: "user",
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

// dispersal stops a fleet that has no controller any more: nobody is
// there to restart anything.
type dispersal struct {
	places   map[string]runtime.Runtime
	sessions map[string][]runtime.Session // by path, in all runtimes
	failed   map[string]error             // by path
}

// take takes over who lives.
func (d *dispersal) take(ctx context.Context, all []agent.Slot) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, 16)
	for _, o := range all {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			s, err := agent.AdoptKnown(ctx, d.places[o.Kind], o.Path)
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

// leftover is an agent without a controller, in all runtimes in which it lives.
type leftover struct {
	path     string
	pid      int
	sessions []runtime.Session
	gone     chan struct{}

	mu    sync.Mutex
	asked time.Time
	ended time.Time
}

func newLeftover(path string, sessions []runtime.Session) *leftover {
	l := &leftover{path: path, pid: sessions[0].Observe().PID, sessions: sessions, gone: make(chan struct{})}
	go func() {
		defer close(l.gone)
		for _, s := range sessions {
			<-s.Done()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = time.Now()
	}()
	return l
}

// Gone is part of shutdown.Process.
func (l *leftover) Gone() <-chan struct{} { return l.gone }

// Kill is part of shutdown.Process.
func (l *leftover) Kill() {
	for _, s := range l.sessions {
		s.Kill()
	}
}

// Overdue is part of shutdown.Process.
func (l *leftover) Overdue(allowed time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked.IsZero() {
		return 0
	}
	ended := l.ended
	if ended.IsZero() {
		ended = time.Now()
	}
	took := ended.Sub(l.asked)
	if took < allowed {
		return 0
	}
	l.asked = time.Time{}
	return took
}

// stop asks it to end when it is its turn.
func (l *leftover) stop(ctx context.Context, sequence *shutdown.Sequence) {
	within, _ := sequence.Await(ctx, l.path)
	switch {
	case ctx.Err() != nil:
		return
	case within == 0:
		l.Kill()
		return
	}
	l.mu.Lock()
	l.asked = time.Now()
	l.mu.Unlock()
	for _, s := range l.sessions {
		if p, ok := s.(interface{ StopWithin(time.Duration) }); ok {
			p.StopWithin(within)
		} else {
			s.Stop()
		}
	}
}

// run stops them and returns who has ended, and who had to be killed for that.
func (d *dispersal) run(ctx context.Context, tree *spec.Tree, allowance func(string) time.Duration) (ended []string,
	late []api.Overdue) {
	agents, living := make(map[string]*leftover), make(map[string]shutdown.Process)
	for path, sessions := range d.sessions {
		agents[path] = newLeftover(path, sessions)
		living[path] = agents[path]
	}
	begun := time.Now()
	var sequence shutdown.Sequence
	var mu sync.Mutex
	run := sequence.Begin(shutdown.Scope{
		Order: tree.StartOrder(), Living: living, Allowed: allowance, Late: func() {},
		Of: func(path string) shutdown.Process { return living[path] },
		Overdue: func(path string, waited time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, api.Overdue{Path: path, PID: agents[path].pid, Waited: waited.Seconds()})
		},
	})
	asking, enough := context.WithCancel(ctx)
	for _, l := range agents {
		go l.stop(asking, &sequence)
	}
	run.Do(ctx.Done(), nil)
	enough()
	for path, l := range agents {
		switch {
		case isClosed(l.gone):
			ended = append(ended, path)
		case ctx.Err() != nil:
			d.failed[path] = context.Cause(ctx)
		default:
			d.failed[path] = &supervisor.AbandonedError{Path: path, Waited: time.Since(begun)}
		}
	}
	slices.SortFunc(ended, func(a, b string) int { return agents[a].ended.Compare(agents[b].ended) })
	return ended, late
}

// paths are those of sightings.
func paths(all []agent.Slot) iter.Seq[string] {
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
			log.Append(e, agent.MarkOrderly(false))
			continue
		}
		log.Append(e)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return log.Close(end)
}
