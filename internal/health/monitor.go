// Package health watches running agents and fails those that no longer do their work. These are
// agents that send no heartbeats or make no progress, that miss their sd_notify watchdog, that are
// idle for too long, or whose program has exited while its wrapper still runs.
//
// The package decides that an incarnation is unhealthy and why. The caller ends its process and
// decides whether to restart it: see Agent and Fleet. Package health/liveness is the state machine
// behind heartbeats and progress.
package health

import (
	"context"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/health/programs"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// Agent is the process of a running incarnation.
type Agent interface {
	Session() runtime.Session
	// Context is done when the incarnation has ended, is killed, or is left running by a daemon that
	// stops.
	Context() context.Context
	// Leaving reports whether the incarnation has been asked to stop, or was failed.
	Leaving() bool
	// Fail ends the incarnation as a failure with a reason. It sends sig or, if that is 0, the
	// agent's stop signal, and SIGKILL after the grace period. It does not wait for the end. It
	// reports false if the incarnation has ended or is leaving already.
	Fail(reason error, sig syscall.Signal) bool
}

// Fleet gives a Monitor access to the specifications of agents and to other features.
type Fleet interface {
	// Spec returns the current specification of an agent; nil if it is not part of the fleet.
	Spec(path string) *spec.Agent
	// HasQuestion reports whether the incarnation has an open question.
	HasQuestion(who token.Caller) bool
	// Draining reports whether an agent is being drained.
	Draining(path string) bool
	// Ready tells the runtime of an incarnation that it is ready.
	Ready(ctx context.Context, who token.Caller) error
	// Run runs a command to its end where an agent runs, as its user and with more variables, and returns the last
	// lines of its output. The end of ctx kills it. The error says how it ended, unless that was exit code 0.
	Run(ctx context.Context, a *spec.Agent, o runtime.Observation, argv []string, env ...string) ([]string, error)
}

// Options connect a Monitor to its surroundings. All are required.
type Options struct {
	Fleet     Fleet
	Append    func(event.Event)                    // writes to the event log
	Reconcile func()                               // requests a reconciliation, which calls FailIdle for idle agents
	Go        func(work func(ctx context.Context)) // runs work in the background
	// Programs reports for processes of a node whether programs run in them; see programs.Here.
	Programs func(ctx context.Context, node string, all []programs.Wanted) (map[int]bool, error)
	Logger   *slog.Logger
}

// Monitor watches the incarnations of all agents.
type Monitor struct {
	opts    Options
	created time.Time

	mu           sync.Mutex
	incarnations map[string]*Incarnation // by path
	terminals    map[string]*terminal    // by path
	idleUnknown  map[string]bool         // paths for which AgentIdleUnknown was logged
}

// New returns a monitor that watches nothing yet.
func New(o Options) *Monitor {
	return &Monitor{
		opts: o, created: time.Now(),
		incarnations: make(map[string]*Incarnation), terminals: make(map[string]*terminal),
		idleUnknown: make(map[string]bool),
	}
}

// Add adds a new incarnation, which may call the API before it is ready.
func (m *Monitor) Add(who token.Caller) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.incarnations[who.Path]; i != nil && i.who == who {
		return
	}
	i := &Incarnation{m: m, who: who, since: time.Now()}
	i.ended, i.end = context.WithCancel(context.Background())
	m.incarnations[who.Path] = i
}

// Start begins to watch an incarnation that is ready.
func (m *Monitor) Start(who token.Caller, agent Agent, a *spec.Agent) {
	if a.Notify {
		go watchdog{period: a.Watchdog, grace: a.Shutdown.Grace}.run(agent)
	}
	i := m.Incarnation(who)
	if i == nil {
		return // it has ended already
	}
	i.mu.Lock()
	i.agent, i.ready = agent, time.Now()
	i.watch.Begin(i.ready, liveness.Timeouts{
		Heartbeat: a.HeartbeatTimeout, Progress: a.ProgressTimeout, Nudge: a.Nudge.Exists(),
	})
	i.updateWaiting()
	i.mu.Unlock()
	m.watchIdle(i, a)
}

// Update applies a changed specification to a running agent.
func (m *Monitor) Update(path string, a *spec.Agent) {
	if i := m.running(path); i != nil {
		m.watchIdle(i, a)
	}
}

// End removes an incarnation that has ended. When it returns, no call of Await for it is running.
func (m *Monitor) End(who token.Caller) {
	m.mu.Lock()
	i := m.incarnations[who.Path]
	if i == nil || i.who != who {
		m.mu.Unlock()
		return
	}
	delete(m.incarnations, who.Path)
	m.mu.Unlock()
	i.mu.Lock()
	i.over = true
	if i.timer != nil {
		i.timer.Stop()
	}
	i.mu.Unlock()
	i.end()
	i.requests.Wait()
}

// Forget drops the state of an agent that is no longer part of the fleet.
func (m *Monitor) Forget(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.terminals, path)
}

// Incarnation returns an incarnation that was added and has not ended, or nil.
func (m *Monitor) Incarnation(who token.Caller) *Incarnation {
	if i := m.Latest(who.Path); i != nil && i.who == who {
		return i
	}
	return nil
}

// Latest returns the latest incarnation of an agent, or nil if that has ended.
func (m *Monitor) Latest(path string) *Incarnation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.incarnations[path]
}

// running returns the incarnation of an agent if Start was called for it, or nil.
func (m *Monitor) running(path string) *Incarnation {
	if i := m.Latest(path); i != nil && i.Ready() {
		return i
	}
	return nil
}

// event returns an event about an incarnation.
func (m *Monitor) event(kind event.Type, who token.Caller, message string) event.Event {
	return event.Event{
		Type: kind, Path: who.Path, Incarnation: who.Incarnation, Actor: "controller", Message: message,
	}
}
