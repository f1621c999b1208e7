// Package agent runs agents in the slots of runtimes: it starts them, adopts those that an earlier
// daemon has started, runs their hooks, stops them, and keeps a record of how each of them ended.
//
// A Manager has the agents of a project. Its Start function makes the Start functions for the
// supervisor library, whose processes are sessions of a runtime with the hooks of their agent. Features
// that follow the incarnations of agents, such as beliefs, tasks and health checks, are Listeners.
package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options are the parts of a daemon that a Manager uses.
type Options struct {
	Store    store.Store
	Log      *event.Log
	Logger   *slog.Logger
	Runtimes []runtime.Runtime // of different kinds
	// Fleet returns the agents that are declared now.
	Fleet func() Fleet
	// Once runs the tree a single time: incarnations are numbered from 1.
	Once    bool
	Started time.Time // start time of the daemon
	Socket  string    // the address of the API that agents receive; empty if there is none
	// Admit returns the socket for agents that run as another user; it may be nil.
	Admit func(uid uint32) (socket string, err error)
	// Output receives what hooks write; it may be nil.
	Output    func(path string, incarnation uint64, line proc.Line)
	Listeners []Listener // called in this order
	Drains    Drains
	Starts    StartLog
	// Prepare completes the launch of an incarnation; it may be nil.
	Prepare func(a *spec.Agent, l *runtime.Launch)
	// Files returns the files of an incarnation that is about to start; nil if it has none. Its error fails the start.
	// It may be nil.
	Files func(ctx context.Context, path string) (*runtime.Files, error)
	// Environ returns the environment of an incarnation, made of what the agent declares; it may be nil.
	Environ func(path string, declared []string) ([]string, error)
	// Classify returns the exit of an incarnation, which may have reported more about its end than its exit code
	// says. It may be nil.
	Classify func(End) supervisor.Exit
	Stopper  *Stopper
}

// Fleet is the set of agents that are declared at one moment.
type Fleet interface {
	Agents() map[string]*spec.Agent // by path; not to be changed
	// Suspends reports whether the file suspends an agent, or something above it.
	Suspends(path string) bool
	// Declared returns the hash of the declaration of an agent.
	Declared(path string, a *spec.Agent) spec.Hash
	// Logs returns how much output is kept of agents that do not declare it.
	Logs() spec.Logs
}

// Drains knows which agents have been asked to finish.
type Drains interface {
	IsDraining(path string, incarnation uint64) bool
	// Stops reports whether an agent is not started again after its exit.
	Stops(path string) bool
	// AwaitStop waits, after the exit of an incarnation, until the outcome of its drain is decided.
	AwaitStop(asked context.Context, path string, incarnation uint64)
}

// StartLog follows how far the event log is behind the starts of agents.
type StartLog interface {
	// AwaitEarlier waits until the log has the starts that must be in it before this one.
	AwaitEarlier(ctx context.Context, path string, incarnation uint64)
	// Logged notes that a start was given to the log.
	Logged(path string, incarnation uint64)
	// Forget forgets the starts of an agent, whose incarnations are numbered from 1 again.
	Forget(path string)
}

// Incarnation is one run of an agent with the token that identifies it to the API.
type Incarnation struct {
	token.Caller
	Token   string
	Adopted bool // an earlier daemon has started it
}

// Exit describes how an incarnation has ended.
type Exit struct {
	supervisor.Exit
	Asked    bool // it was asked to stop
	Draining bool // it was asked to finish
}

// Died reports whether the exit was neither asked for nor the clean end of a drain.
func (e Exit) Died() bool { return !e.Asked && !(e.Draining && e.Clean()) }

// Listener follows the incarnations of agents. Each function may be nil.
type Listener struct {
	// Begin is called before an incarnation is started or adopted; its error fails the start.
	Begin func(ctx context.Context, i Incarnation) error
	// Launch is called before an incarnation starts in its slot.
	Launch func(who token.Caller, a *spec.Agent)
	// Adopt is called with the observation of an incarnation that is adopted.
	Adopt func(o runtime.Observation, a *spec.Agent)
	// Run is called when the incarnation is ready and its supervisor has received it.
	Run func(who token.Caller, p *Process, a *spec.Agent)
	// Fail is called after a failure, before the hook for that runs.
	Fail func(who token.Caller)
	// End is called after the exit and its hooks, or when the start has failed.
	End func(who token.Caller, exit Exit)
}

// Manager has the agents of a project.
type Manager struct {
	Options
	runtimes map[string]runtime.Runtime // by kind
	tokens   *token.Registry

	mu         sync.Mutex
	adoptions  map[string]adoption    // incarnations to be adopted instead of started
	staleSlots map[string]*staleSlots // slots to be emptied before the start
	keeps      func(path string) bool // which agents keep running without the daemon; nil: none
	detaching  bool                   // all of them do
}

// New returns a Manager that has observed no slot; see Restore.
func New(o Options) *Manager {
	m := &Manager{
		Options: o, runtimes: make(map[string]runtime.Runtime), tokens: token.New(),
		adoptions: make(map[string]adoption), staleSlots: make(map[string]*staleSlots),
	}
	for _, r := range o.Runtimes {
		m.runtimes[r.Kind()] = r
	}
	return m
}

// Runtimes returns the runtimes by their kind.
func (m *Manager) Runtimes() map[string]runtime.Runtime { return m.runtimes }

// Home returns the runtime that an agent belongs in; nil if the agent is not wanted.
func (m *Manager) Home(path string) runtime.Runtime {
	if a := m.Fleet().Agents()[path]; a != nil {
		return m.runtimes[a.Runtime.String()]
	}
	return nil
}

// AttachCommand returns the command that opens the session of an agent without coppice, or nil if
// there is none.
func (m *Manager) AttachCommand(path string) (argv []string, dir string) {
	r, ok := m.Home(path).(interface {
		AttachCommand(path string) (argv []string, dir string, err error)
	})
	if !ok {
		return nil, ""
	}
	argv, dir, err := r.AttachCommand(path)
	if err != nil {
		return nil, ""
	}
	return argv, dir
}

// Remembers returns how many exits the slot of an agent remembers, at least 1.
func (m *Manager) Remembers(path string) int {
	if r, ok := m.Home(path).(interface{ Remembers(path string) int }); ok {
		return max(1, r.Remembers(path))
	}
	return 1
}

// Session returns the last session of an agent; nil if there was none yet.
func (m *Manager) Session(path string) runtime.Session {
	if p := m.Stopper.registry.of(path); p != nil {
		return p.session
	}
	return nil
}

// Forget forgets an agent that is no longer declared and has ended.
func (m *Manager) Forget(path string) { m.Stopper.registry.forget(path) }

// Caller returns the incarnation of a token; see token.Registry.
func (m *Manager) Caller(token string) (token.Caller, error) { return m.tokens.Caller(token) }

// IsPending reports whether an agent may be running although its incarnation is not yet known.
func (m *Manager) IsPending(path string) bool { return m.tokens.Pending(path) }

// Adoptions returns the paths of the agents that were found running and are still to be adopted.
func (m *Manager) Adoptions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	paths := make([]string, 0, len(m.adoptions))
	for path := range m.adoptions {
		paths = append(paths, path)
	}
	return paths
}

// IsAdopting reports whether an agent was found running and is still to be adopted.
func (m *Manager) IsAdopting(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.adoptions[path]
	return ok
}

// Detach keeps all agents running when their supervisors end.
func (m *Manager) Detach() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.detaching, m.keeps = true, func(string) bool { return true }
}

// DetachSome keeps some agents running when their supervisors end.
func (m *Manager) DetachSome(keeps func(path string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.detaching {
		m.keeps = keeps
	}
}

// IsDetaching reports whether all agents keep running when their supervisors end.
func (m *Manager) IsDetaching() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.detaching
}

// Keeps reports whether an agent keeps running when its supervisor ends.
func (m *Manager) Keeps(path string) bool {
	m.mu.Lock()
	keeps := m.keeps
	m.mu.Unlock()
	return keeps != nil && keeps(path)
}

// IsKeeping reports whether agents may keep running when their supervisors end.
func (m *Manager) IsKeeping() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keeps != nil
}
