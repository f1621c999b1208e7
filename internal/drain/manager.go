package drain

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// nudgeText reminds an agent that it is drained. It must have no special characters: see
// TestNudgeText.
const nudgeText = "coppice: you are asked to finish what you do. Please run: coppice agent hook"

// Agents gives drains access to the agents of the fleet.
type Agents interface {
	// Below returns the agents at and below a path, whose first segment may be left out.
	Below(path string) ([]string, error)
	// Child returns an agent as its supervisor sees it.
	Child(path string) (supervisor.ChildInfo, error)
	// StopNow stops an agent as if a person had asked for it.
	StopNow(ctx context.Context, path string) error
	// Suspend stops a drained agent, and returns the resulting changes of the store.
	Suspend(ctx context.Context, path string) ([]store.Op, error)
	// Renew restarts an agent, unless the incarnation has ended.
	Renew(ctx context.Context, path string, incarnation uint64, counted bool)
	// DropRestart drops the restart that an agent has asked for.
	DropRestart(path, why string)
	// StopWaiting ends the requests in which an agent waits for work. It reports false if the
	// agent has exited.
	StopWaiting(path string) bool
	// ChecksDrains records that an agent checks whether it is drained.
	ChecksDrains(who token.Caller)
	// Nudge reminds an agent of something.
	Nudge(ctx context.Context, path, text string)
}

// Options connect a Manager with the rest of the daemon. All are required.
type Options struct {
	Store  store.Store
	Logger *slog.Logger
	Agents Agents
	// Record writes an event together with changes of the store, and returns when they are stored.
	Record func(event.Event, ...store.Op) error
	// Go runs a function in the background, with a context that ends with the daemon.
	Go func(func(context.Context))
	// Changed is called when the drain of an agent has changed.
	Changed func(path string)
	// Launched is closed when the supervisors run.
	Launched <-chan struct{}
}

// Manager holds the drains of all agents. New makes it.
type Manager struct {
	Options
	mu       sync.Mutex
	byPath   map[string]*drain
	renewing map[string]uint64 // incarnations being replaced after the end of their drain, by path
}

// New returns a Manager without drains; see Restore.
func New(o Options) *Manager {
	return &Manager{Options: o, byPath: make(map[string]*drain), renewing: make(map[string]uint64)}
}

// Of returns the drain of an agent, or false if it has none.
func (m *Manager) Of(path string) (State, bool) {
	d := m.of(path)
	if d == nil {
		return State{}, false
	}
	return d.state(), true
}

// Has reports whether an agent is drained.
func (m *Manager) Has(path string) bool { return m.of(path) != nil }

// IsDraining reports whether an incarnation is drained, or is being replaced after that.
func (m *Manager) IsDraining(path string, incarnation uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.byPath[path]; d != nil {
		return d.Incarnation == incarnation
	}
	return m.renewing[path] == incarnation
}

// Stops reports whether an agent is drained and stopped afterwards, rather than restarted.
func (m *Manager) Stops(path string) bool {
	d := m.of(path)
	return d != nil && !d.renews()
}

// Len returns the number of drains.
func (m *Manager) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byPath)
}

// API returns the drain of an agent as the API shows it, or nil if it has none.
func (m *Manager) API(path string) *Info {
	if s, ok := m.Of(path); ok {
		return s.API()
	}
	return nil
}

func (m *Manager) of(path string) *drain {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byPath[path]
}

// begin begins a drain and returns it. If the agent is drained already, it returns that drain.
func (m *Manager) begin(r record, timeout time.Duration, actor string) *drain {
	now := time.Now()
	r.Until, r.SavedAt = now.Add(timeout), now
	d := newDrain(r, timeout)
	m.mu.Lock()
	if before := m.byPath[r.Path]; before != nil {
		m.mu.Unlock()
		if !r.Renew && !r.Pool {
			before.stopAfterwards()
		}
		return before
	}
	m.byPath[r.Path] = d
	m.mu.Unlock()
	if !m.Agents.StopWaiting(r.Path) {
		d.close(d.exited)
	}
	message := fmt.Sprintf("%s is asked to finish within %s", r.Path, liveness.Brief(timeout))
	if r.Reason != "" {
		message += ": " + r.Reason
	}
	err := m.Record(event.Event{
		Type: event.AgentDraining, Path: r.Path, Incarnation: r.Incarnation, Actor: actor, Message: message,
	}.With(map[string]any{"reason": r.Reason, "until": r.Until}), r.op())
	if err != nil { // like a stop by hand, a drain works without the store
		m.Logger.Warn("cannot persist a drain", "path", r.Path, "error", err)
	}
	if !d.Pool {
		m.Go(func(ctx context.Context) { m.finish(ctx, d) })
	}
	m.Go(func(ctx context.Context) { m.Agents.Nudge(ctx, r.Path, nudgeText) })
	return d
}

// end removes a drain, and writes an event together with changes of the store.
func (m *Manager) end(path string, incarnation uint64, e event.Event, ops ...store.Op) {
	e.Path, e.Incarnation = path, incarnation
	m.mu.Lock()
	delete(m.byPath, path)
	m.mu.Unlock()
	defer m.Changed(path)
	remove := store.Op{Kind: store.Delete, Key: record{Path: path}.key()}
	if err := m.Record(e, append(ops, remove)...); err != nil {
		m.Logger.Warn("cannot persist the end of a drain", "path", path, "error", err)
	}
}

// Cancel cancels the drain of an agent, because a person wants it to run. It reports false if the
// agent has no drain or is being stopped already.
func (m *Manager) Cancel(ctx context.Context, path string) bool {
	d := m.of(path)
	if d == nil {
		return false
	}
	if !d.decide("") {
		d.wait(ctx)
		return false
	}
	m.end(path, d.Incarnation, event.Event{
		Type: event.AgentDrainEnded, Actor: "user", Message: path + " need no longer finish",
	})
	close(d.canceled)
	return true
}

func errNotDrained(path string) error {
	return fmt.Errorf("%w: %s is no longer being drained: it was started by hand, or the daemon that was asked "+
		"kept no record", api.ErrConflict, path)
}
