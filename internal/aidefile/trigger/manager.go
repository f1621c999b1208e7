// Package trigger starts the runs of agents that have an Aidefile, when a trigger or a
// person asks for one. Package aidefile decides whether a run may begin, and the
// supervisor of the agent starts and restarts it.
package trigger

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Agents gives triggers access to the agents of the fleet.
type Agents interface {
	// FullPath completes a path whose first segment may be left out.
	FullPath(path string) string
	// Has reports whether the fleet has an agent.
	Has(path string) bool
	// Aidefile returns the Aidefile of an agent; nil if it has none or is not in the fleet.
	Aidefile(path string) *aidefile.Agent
	// Locate returns the supervisor of an agent and its ID there.
	Locate(path string) (*supervisor.Supervisor, string, error)
	// ChildSpec returns the specification to start an agent that its supervisor has forgotten.
	ChildSpec(path string) supervisor.ChildSpec
	// IsAdopting reports whether a run of an agent was found that goes on, or whose end is still to be handled.
	IsAdopting(path string) bool
	// IsDraining reports whether an agent is drained and stays down afterwards.
	IsDraining(path string) bool
	// Hold records that an agent that its supervisor has forgotten stays down.
	Hold(path string, why supervisor.Reason)
	// Release removes what is left of an agent that is no longer in the fleet, if its supervisor has forgotten it.
	Release(path string)
}

// Options connect a Manager with the rest of the daemon. All except Files are required.
type Options struct {
	Store  store.Store
	Log    *event.Log
	Logger *slog.Logger
	Agents Agents
	Ledger Ledger
	// Files are the files of the last runs; if it is nil, runs have none, and nothing is known of their calls.
	Files Files
	// Once is set if the tree runs once; an agent that only a person starts then runs at once.
	Once bool
	// Go runs a function in the background, with a context that ends with the daemon.
	Go func(func(context.Context))
	// Stopping is closed when the daemon begins to stop.
	Stopping <-chan struct{}
	// LastStatus returns the last status of a run that ended on its own, "" if it sent
	// none or was ended.
	LastStatus func(error) string
	// LogUnexpected logs an error about an agent, unless it is expected.
	LogUnexpected func(message, path string, err error)
}

// Manager starts the runs of all agents with an Aidefile. New makes it.
type Manager struct {
	Options
	mu     sync.Mutex
	byPath map[string]*agent
	queues map[string]*aidefile.Queue // by key in the store; also of agents that are gone
	// requests are those that may be in the store, by key.
	requests map[string]runner.RunRequest
}

// New returns a Manager without agents; see Restore, Add and Apply.
func New(o Options) *Manager {
	return &Manager{
		Options: o, byPath: make(map[string]*agent), queues: make(map[string]*aidefile.Queue),
		requests: make(map[string]runner.RunRequest),
	}
}

// of returns an agent; nil if it has no Aidefile.
func (m *Manager) of(path string) *agent {
	if m.Agents.Aidefile(path) == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byPath[path]
}

// Has reports whether an agent has an Aidefile.
func (m *Manager) Has(path string) bool { return m.of(path) != nil }

// HeldBy returns why the triggers of an agent are ignored although its supervisor does
// not list it as suspended; NoReason if they are not.
func (m *Manager) HeldBy(path string) supervisor.Reason {
	if a := m.of(path); a != nil {
		return a.heldBy()
	}
	return supervisor.NoReason
}

// Previous is the state of an agent in the records of the previous daemon.
type Previous struct {
	State    string           // of a supervisor.State; "" if there is no record
	NextAt   time.Time        // of a pending restart
	Waits    bool             // it waits for its quota, to make its run again
	Ended    bool             // the last incarnation has ended
	LastExit *supervisor.Exit // nil if unknown
	Orderly  bool             // the daemon stopped its agents
}

// Add adds an agent, and returns the saved state for its supervisor. A run that is in progress or
// pending continues; otherwise none begins with the tree. No count of restarts survives the daemon.
func (m *Manager) Add(path string, file *aidefile.Agent, s *supervisor.Saved, p Previous) *supervisor.Saved {
	if s == nil {
		s = new(supervisor.Saved)
	}
	s.Restarts, s.Attempt, s.Counted = 0, 0, nil
	goesOn, fresh := true, false
	switch {
	case s.Adopt, s.State == supervisor.Paused:
	case s.State == supervisor.Suspended:
		goesOn = false
	case p.State == supervisor.Restarting.String():
		s.State, s.NextAt, s.Reason = supervisor.Restarting, p.NextAt, supervisor.ReasonTransientFailed
		if p.Waits { // whatever its policy; it asks at once
			s.NextAt, s.Reason = time.Time{}, supervisor.ReasonRetry
		}
	case !p.Orderly && p.Ended && p.State == supervisor.Waiting.String() && p.LastExit != nil &&
		file.File.Policy.Follows(*p.LastExit):
		// The daemon was killed while it restarted the agent.
		s.State, s.NextAt, s.Reason = supervisor.Restarting, time.Time{}, supervisor.ReasonTransientFailed
	case m.Once && !file.File.StartsItself():
		s.State, fresh = supervisor.Waiting, true
	default:
		s.State, s.Reason, s.NextAt, goesOn = supervisor.Stopped, supervisor.ReasonTransientClean, time.Time{}, false
	}
	var q runner.RunRequest
	known := false
	if goesOn && !fresh {
		q, known = m.pending(path)
	}
	m.countFound(path, m.add(path, file, goesOn, func(a *agent) {
		if known {
			a.restore(q)
		}
	}), goesOn)
	return s
}

// add adds an agent unless it is known. goesOn is set if a run is in progress or pending, and restore sets its request.
func (m *Manager) add(path string, file *aidefile.Agent, goesOn bool, restore func(*agent)) *agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.byPath[path]
	if a == nil {
		a = newAgent(file, m.queue(path), goesOn)
		restore(a)
		a.queue.FreeAll(a.request.Issue) // of runs that ended with the daemon, or never began
		m.byPath[path] = a
	}
	return a
}

// Apply watches the triggers of the current fleet, and no others.
func (m *Manager) Apply() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, a := range m.byPath {
		if m.Agents.Aidefile(path) != nil {
			continue
		}
		a.replaceWatch(nil)
		delete(m.byPath, path)
		if !m.Agents.Has(path) {
			m.Agents.Release(path)
		}
	}
	m.forgetRequests()
	for path, a := range m.byPath {
		file := m.Agents.Aidefile(path)
		a.mu.Lock()
		same := a.unwatch != nil && reflect.DeepEqual(a.file, file)
		a.file = file
		a.mu.Unlock()
		if same {
			continue
		}
		a.gate.setPolicy(file.File.Policy)
		ctx, cancel := context.WithCancel(context.Background())
		a.replaceWatch(cancel)
		m.watch(ctx, path, a, file)
	}
}

// ResetGivenUp resets agents whose policy has changed, if they were given up or the new
// policy does not want their pending restart. They wait for their triggers with a fresh
// count: other agents start at once when their limit has changed, but no run begins
// without a trigger. Call it before Apply, with the new fleet.
func (m *Manager) ResetGivenUp(ctx context.Context) {
	for path, a := range m.all() {
		file := m.Agents.Aidefile(path)
		if file == nil || a.policy() == file.File.Policy {
			continue
		}
		a.starting.Lock()
		if t, err := m.target(path, a); err == nil && t.mustReset(file.File.Policy) {
			err := errors.Join(t.Supervisor.TerminateChild(ctx, t.ID, supervisor.ReasonChanged),
				t.Supervisor.Reset(t.ID))
			m.LogUnexpected("cannot reset an agent whose policy has changed", path, err)
		}
		a.starting.Unlock()
	}
}

// mustReset reports whether a child was given up, or waits for a restart that a new
// policy does not want.
func (t Target) mustReset(p aidefile.Policy) bool {
	i, err := t.Supervisor.Child(t.ID)
	if err != nil || i.State != supervisor.Restarting {
		return err == nil && i.State == supervisor.GivenUp
	}
	if !p.Follows(i.LastExit) {
		return true
	}
	if i.LastExit.Clean() {
		return false
	}
	saved, _, err := t.Supervisor.Save(t.ID)
	return err == nil && saved.Attempt > p.MaxRestarts
}

// all returns a copy of the agents by path.
func (m *Manager) all() map[string]*agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.byPath)
}

// target returns the place of an agent in the tree.
func (m *Manager) target(path string, a *agent) (Target, error) {
	sup, id, err := m.Agents.Locate(path)
	if err != nil {
		return Target{}, err
	}
	return Target{Supervisor: sup, ID: id, spec: m.Agents.ChildSpec(path), gate: a.gate}, nil
}

// Start returns the Start function of an agent with an Aidefile, made from the one that
// starts its process.
func (m *Manager) Start(start starter) starter {
	return func(ctx context.Context) (supervisor.Process, error) {
		self, _ := supervisor.SelfOf(ctx)
		a := m.of(self.Path)
		if a == nil {
			return nil, supervisor.ErrIgnore // it was just removed
		}
		return a.gate.wrap(func(ctx context.Context) (supervisor.Process, error) {
			p, err := start(ctx)
			if err != nil {
				return nil, err
			}
			return reportedRun{p, m, self.Path, self.Incarnation}, nil
		})(ctx)
	}
}
