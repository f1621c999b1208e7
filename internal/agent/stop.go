package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// StopTimeout returns the time between asking an agent to stop and killing it: its own grace period, or
// shutdown_timeout if it declares none. Zero: it is killed at once. The agent may be nil.
func StopTimeout(p spec.Patrol, a *spec.Agent) time.Duration {
	timeout := p.ShutdownTimeout
	if a == nil {
		return timeout
	}
	if _, signal, _ := spec.ParseSignal(a.Shutdown.Signal); signal == syscall.SIGKILL || timeout == 0 {
		return 0
	}
	if a.Shutdown.Grace != supervisor.DefaultShutdown {
		timeout = a.Shutdown.Grace
	}
	return timeout
}

// StopOptions are the parts of a daemon that a Stopper uses.
type StopOptions struct {
	Log *event.Log
	// Timeout returns the time that an agent has to stop; 0 if it is killed at once.
	Timeout func(path string) time.Duration
	// Order returns the start order of the tree that a node belongs to, or last belonged to.
	Order func(path string) *spec.StartOrder
	// Find returns the supervisor that runs at a path; nil if there is none.
	Find  func(path string) *supervisor.Supervisor
	Ended <-chan struct{} // closed when the daemon has ended
}

// Stopper stops agents in the order of their tree and in bounded time, as package shutdown plans it. It
// has the processes of all agents that run.
type Stopper struct {
	StopOptions
	registry *registry
	sequence shutdown.Sequence
	hurry    chan struct{} // closed by Hurry
	hurried  sync.Once
	stopped  chan struct{} // closed when StopAll has stopped all agents

	mu      sync.Mutex
	all     bool               // StopAll was called
	overdue []shutdown.Overdue // agents that did not stop in time since
}

// NewStopper returns a Stopper without agents.
func NewStopper(o StopOptions) *Stopper {
	return &Stopper{
		StopOptions: o, registry: newRegistry(), hurry: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// StopAll stops the whole tree of a root supervisor. Nothing in it starts again.
func (s *Stopper) StopAll(root *supervisor.Supervisor) {
	s.mu.Lock()
	s.all = true
	s.mu.Unlock()
	run := s.begin(root.Path())
	root.Stop()
	run.Do(s.hurry, s.Ended)
	close(s.stopped)
	if !s.registry.empty() { // some do not end even when killed, and the wait for them is over
		root.Kill()
	}
}

// Stop stops the agents at and below a path; stop stops their supervisors.
func (s *Stopper) Stop(ctx context.Context, path string, stop func(context.Context) error) error {
	run := s.begin(path)
	defer run.End()
	stopped := make(chan error, 1)
	go func() { stopped <- stop(ctx) }()
	run.Do(s.hurry, s.Ended)
	return <-stopped
}

// IsStopping reports whether the agents at and below a path are being stopped.
func (s *Stopper) IsStopping(path string) bool { return s.sequence.Covers(path) }

// Hurry kills the agents that StopAll and Stop still wait for, and those whose start is given up.
func (s *Stopper) Hurry() { s.hurried.Do(func() { close(s.hurry) }) }

// killInHurry kills what a start has left in a slot if Hurry is called after the start was given up: ctx is done then,
// and the start goes on for the grace period of the agent. The function that it returns ends that.
func (s *Stopper) killInHurry(ctx context.Context, in runtime.Runtime, path string) (end func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-s.hurry:
		case <-over:
			return
		}
		for { // the start may come only now to its process
			evicting, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown.KillTime)
			Evict(evicting, in, path, 0) // a failure shows in the start
			cancel()
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return func() {
		stop()
		close(over)
	}
}

// Register registers the route of the shutdown report.
func (s *Stopper) Register(server *api.Server) {
	shutdown.GetReport.Handle(server, func(ctx context.Context, _ token.Caller, _ api.None) (shutdown.Report, error) {
		return s.report(ctx)
	})
}

// report waits until StopAll has stopped all agents.
func (s *Stopper) report(ctx context.Context) (shutdown.Report, error) {
	select {
	case <-s.stopped:
	case <-s.hurry:
	case <-s.Ended:
	case <-ctx.Done():
		return shutdown.Report{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return shutdown.Report{Overdue: append([]shutdown.Overdue{}, s.overdue...)}, nil
}

// AwaitStarts waits, at most for some time, until the starts in progress have succeeded or failed.
func (s *Stopper) AwaitStarts(atMost time.Duration) { s.registry.awaitStarts(atMost) }

// AwaitStopped waits, at most for some time, until StopAll has written what it has to say of agents, unless it was not
// called.
func (s *Stopper) AwaitStopped(atMost time.Duration) {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	if !all {
		return
	}
	select {
	case <-s.stopped:
	case <-time.After(atMost):
	}
}

// begin plans the stop of all agents at and below a path. Their supervisors then ask all agents at once,
// and each agent waits for its turn in the plan.
func (s *Stopper) begin(path string) *shutdown.Run {
	running, starting := s.registry.below(path)
	return s.sequence.Begin(shutdown.Scope{
		Path: path, Order: s.Order(path), Living: running, Starting: starting, Allowed: s.Timeout,
		Of: func(path string) shutdown.Process {
			if p := s.registry.of(path); p != nil {
				return p
			}
			return nil
		},
		Overdue: s.logOverdue,
		Late: func() {
			if sup := s.Find(path); sup != nil {
				stopTogether(sup)
			}
		},
	})
}

// stopTogether makes a supervisor, and those below it, stop all children at once.
func stopTogether(sup *supervisor.Supervisor) {
	children, _ := sup.Children()
	for _, child := range children {
		if child.Sub != nil {
			stopTogether(child.Sub)
		}
	}
	sup.StopTogether() // without effect after its end
}

// logOverdue logs that an agent did not stop in time.
func (s *Stopper) logOverdue(path string, waited time.Duration) {
	p := s.registry.of(path)
	if p == nil {
		return // it was removed meanwhile
	}
	overdue := shutdown.Overdue{Path: path, PID: p.pidWhenAsked(), Waited: waited.Seconds()}
	s.mu.Lock()
	if s.all {
		s.overdue = append(s.overdue, overdue)
	}
	s.mu.Unlock()
	s.Log.Append(event.Event{
		Type: event.AgentOverdue, Path: path, Incarnation: p.session.Observe().Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s did not stop within %v, and is killed", overdue.Who(),
			waited.Round(100*time.Millisecond)),
	}.With(overdue))
}

// turn is the place of an agent in the order in which agents are stopped.
type turn struct {
	sequence *shutdown.Sequence
	path     string
}

func (t turn) Await(ctx context.Context) (within time.Duration, ordered bool) {
	return t.sequence.Await(ctx, t.path)
}
func (t turn) Bound() time.Duration { return t.sequence.Bound(t.path) }

// StopUnadopted stops the agents that were found running and were not adopted before their
// supervisors ended.
func (m *Manager) StopUnadopted() {
	kinds := make(map[string][]string) // by path
	m.mu.Lock()
	for path, a := range m.adoptions {
		if m.keeps != nil && m.keeps(path) {
			continue
		}
		kinds[path] = append(kinds[path], a.kind)
	}
	for path, stale := range m.staleSlots {
		for _, s := range stale.slots {
			kinds[path] = append(kinds[path], s.Kind)
		}
	}
	clear(m.adoptions)
	clear(m.staleSlots)
	m.mu.Unlock()
	var wg sync.WaitGroup
	for path, in := range kinds {
		for _, kind := range in {
			wg.Go(func() { m.stopSlot(path, kind) })
		}
	}
	wg.Wait()
}

// stopSlot stops what runs in a slot. After Hurry it is killed.
func (m *Manager) stopSlot(path, kind string) {
	hurry, timeout := m.Stopper.hurry, m.Stopper.Timeout(path)
	ctx, cancel := context.WithTimeout(context.Background(), timeout+shutdown.KillTime)
	defer cancel()
	s, err := adoptKnown(ctx, m.runtimes[kind], path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && isClosed(s.Done()) {
		return
	}
	if isClosed(hurry) {
		timeout = 0
	}
	if err == nil {
		asking, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-hurry:
				stop()
			case <-asking.Done():
			}
		}()
		err = Evict(asking, m.runtimes[kind], path, timeout)
	}
	if err != nil {
		m.Logger.Error("cannot stop an agent that was found running", "path", path, "error", err)
		return
	}
	m.Log.Append(event.Event{
		Type: event.AgentStopped, Path: path, Incarnation: s.Observe().Incarnation, Actor: "controller",
		Message: path + " stopped: it was found running and not adopted before the end",
	})
}
