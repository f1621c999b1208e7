package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Stopped is an agent that StopOffline has stopped.
type Stopped struct {
	Path        string
	Incarnation uint64
}

// Lost is an agent that had ended, unseen by its runtime, before StopOffline.
type Lost struct {
	Path string
	runtime.Ended
}

// OfflineStop is the result of StopOffline.
type OfflineStop struct {
	Stopped []Stopped // in the order in which they ended
	Lost    []Lost    // by path; nothing is left of them
	Overdue []shutdown.Overdue
	Failed  map[string]error // by path
}

// StopOffline stops agents that have no daemon, in the order of their tree. No supervisor restarts
// anything. It kills what is left of agents that have ended before.
func StopOffline(ctx context.Context, tree *spec.Tree, runtimes []runtime.Runtime, slots []Slot) OfflineStop {
	slots = slices.Clone(slots)
	pathOf := slotPaths(tree.All())
	for i, slot := range slots {
		if slot.Life == runtime.Unknown {
			slots[i].Path = pathOf(slot.Path)
		}
	}
	s := &offlineStop{
		runtimes: make(map[string]runtime.Runtime), sessions: make(map[string][]runtime.Session),
		result: OfflineStop{Failed: make(map[string]error)},
	}
	for _, rt := range runtimes {
		s.runtimes[rt.Kind()] = rt
	}
	populated := tree.Populated(func(yield func(string) bool) {
		for _, slot := range slots {
			if !yield(slot.Path) {
				return
			}
		}
	})
	timeouts := make(map[string]time.Duration)
	for path, child := range populated.All() {
		if child.Agent != nil {
			timeouts[path] = StopTimeout(tree.Patrol, child.Agent)
		}
	}
	s.timeout = func(path string) time.Duration {
		if d, known := timeouts[path]; known {
			return d
		}
		return StopTimeout(tree.Patrol, nil)
	}
	s.adopt(ctx, slots)
	s.run(ctx, populated)
	s.mu.Lock() // an agent that ends after ctx may be noted late
	defer s.mu.Unlock()
	return s.result
}

// offlineStop is a run of StopOffline.
type offlineStop struct {
	runtimes map[string]runtime.Runtime
	sessions map[string][]runtime.Session // by path, in all runtimes
	timeout  func(path string) time.Duration
	mu       sync.Mutex
	result   OfflineStop
}

// adopt adopts the agents in slots, which kills what is left of those that have ended. A damaged slot
// is removed then.
func (s *offlineStop) adopt(ctx context.Context, slots []Slot) {
	parallel(slots, func(slot Slot) {
		session, err := adoptKnown(ctx, s.runtimes[slot.Kind], slot.Path)
		lost := err == nil && isClosed(session.Done()) && session.Exit().Kind == supervisor.Lost
		if lost && slot.Life == runtime.Unknown { // damaged: it would be found again
			err = s.runtimes[slot.Kind].Remove(ctx, slot.Path)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil && lost:
			o := session.Observe()
			s.result.Lost = append(s.result.Lost,
				Lost{slot.Path, runtime.Ended{Incarnation: o.Incarnation, ExitedAt: o.ExitedAt, Exit: o.Exit}})
		case err == nil && isClosed(session.Done()) && !slot.Lives():
		case err == nil:
			s.sessions[slot.Path] = append(s.sessions[slot.Path], session)
		case !errors.Is(err, fs.ErrNotExist): // else it has ended meanwhile
			s.result.Failed[slot.Path] = err
		}
	})
	slices.SortFunc(s.result.Lost, func(a, b Lost) int { return strings.Compare(a.Path, b.Path) })
}

// run stops the agents.
func (s *offlineStop) run(ctx context.Context, tree *spec.Tree) {
	agents, running := make(map[string]*orphan), make(map[string]shutdown.Process)
	for path, sessions := range s.sessions {
		agents[path] = newOrphan(path, sessions)
		running[path] = agents[path]
	}
	begun := time.Now()
	var sequence shutdown.Sequence
	run := sequence.Begin(shutdown.Scope{
		Order: tree.StartOrder(), Living: running, Allowed: s.timeout, Late: func() {},
		Of: func(path string) shutdown.Process { return running[path] },
		Overdue: func(path string, waited time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.result.Overdue = append(s.result.Overdue,
				shutdown.Overdue{Path: path, PID: agents[path].pid, Waited: waited.Seconds()})
		},
	})
	asking, cancel := context.WithCancel(ctx)
	for _, o := range agents {
		go o.stop(asking, &sequence)
	}
	run.Do(ctx.Done(), nil)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	var stopped []*orphan
	for path, o := range agents {
		switch {
		case isClosed(o.gone):
			stopped = append(stopped, o)
		case ctx.Err() != nil:
			s.result.Failed[path] = context.Cause(ctx)
		default:
			s.result.Failed[path] = &supervisor.AbandonedError{Path: path, Waited: time.Since(begun)}
		}
	}
	slices.SortFunc(stopped, func(a, b *orphan) int { return a.ended.Compare(b.ended) })
	for _, o := range stopped {
		s.result.Stopped = append(s.result.Stopped, Stopped{o.path, o.sessions[0].Observe().Incarnation})
	}
}

// Paths returns the paths of the agents that were stopped.
func (s OfflineStop) Paths() (paths []string) {
	for _, a := range s.Stopped {
		paths = append(paths, a.Path)
	}
	return paths
}

// FailedPaths returns the paths of the agents that could not be stopped, sorted.
func (s OfflineStop) FailedPaths() []string { return slices.Sorted(maps.Keys(s.Failed)) }

// orphan is an agent without a daemon, in all runtimes in which it runs.
type orphan struct {
	path     string
	pid      int
	sessions []runtime.Session
	gone     chan struct{}

	mu    sync.Mutex
	asked time.Time
	ended time.Time
}

func newOrphan(path string, sessions []runtime.Session) *orphan {
	o := &orphan{path: path, pid: sessions[0].Observe().PID, sessions: sessions, gone: make(chan struct{})}
	go func() {
		defer close(o.gone)
		for _, s := range sessions {
			<-s.Done()
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended = time.Now()
	}()
	return o
}

// Gone is part of shutdown.Process.
func (o *orphan) Gone() <-chan struct{} { return o.gone }

// Kill is part of shutdown.Process.
func (o *orphan) Kill() {
	for _, s := range o.sessions {
		s.Kill()
	}
}

// Overdue is part of shutdown.Process.
func (o *orphan) Overdue(allowed time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked.IsZero() {
		return 0
	}
	ended := o.ended
	if ended.IsZero() {
		ended = time.Now()
	}
	took := ended.Sub(o.asked)
	if took < allowed {
		return 0
	}
	o.asked = time.Time{}
	return took
}

// stop asks the agent to stop when its turn has come.
func (o *orphan) stop(ctx context.Context, sequence *shutdown.Sequence) {
	within, _ := sequence.Await(ctx, o.path)
	switch {
	case ctx.Err() != nil:
		return
	case within == 0:
		o.Kill()
		return
	}
	o.mu.Lock()
	o.asked = time.Now()
	o.mu.Unlock()
	for _, s := range o.sessions {
		if w, ok := s.(stopWithiner); ok {
			w.StopWithin(within)
		} else {
			s.Stop()
		}
	}
}
