package pool

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// Fleet is the tree of agents that contains the pools.
type Fleet interface {
	// Interval returns the time between two checks.
	Interval() time.Duration
	// Runs reports whether the supervisor of a pool runs and is not suspended.
	Runs(path string) bool
	// Instances returns the instances of a pool as its supervisor sees them, and false if that
	// does not answer.
	Instances(path string) ([]Instance, bool)
	// IsPending reports whether an instance is about to be adopted or started.
	IsPending(path string) bool
	// Apply makes the fleet have the instances that a pool should have. It calls Lay of the pool,
	// Listed when the supervisors know the new instances, and Removed for each instance that it
	// has stopped and removed. It returns when all of that is done. It ignores a pool that the
	// fleet no longer has. An error means that nothing has changed.
	Apply(ctx context.Context, c *Controller) error
	// Environ returns the user and the environment of commands of a pool. A nil user is that of the
	// daemon.
	Environ(path string, template *spec.Agent) (*account.Account, []string, error)
	// Boot runs the hook on_boot of a pool, with more variables in its environment.
	Boot(ctx context.Context, path string, template *spec.Agent, more []string)
}

// Instance is an instance as its supervisor sees it.
type Instance struct {
	Name        string
	Incarnation uint64
	Lives       bool // it runs, starts or stops
	Completed   bool // its restart policy does not restart it
	Waits       bool // it has not been started yet
	Deferred    bool // the reconciler starts it later
}

// Drains asks instances to finish. *drain.Manager implements it.
type Drains interface {
	Of(path string) (drain.State, bool)
	BeginSurplus(path string, incarnation uint64, reason string, timeout time.Duration)
	CancelSurplus(path string)
	DecideSurplus(path, why string)
}

// Options connect a Manager with the rest of the daemon. All except Check are required.
type Options struct {
	Store  store.Store
	Logger *slog.Logger
	Fleet  Fleet
	Drains Drains
	// Append writes an event together with changes of the store.
	Append func(event.Event, ...store.Op)
	// Go runs a function in the background, with a context that ends with the daemon.
	Go       func(func(context.Context))
	Stopping <-chan struct{} // closed when the daemon is asked to stop
	Ended    <-chan struct{} // closed when it has stopped
	Socket   string          // of the daemon; unique on this machine
	// Check runs a check; nil: as a process.
	Check func(context.Context, Check) (int, error)
}

// Manager holds the pools of a fleet. NewManager makes it.
type Manager struct {
	Options
	clear   func(context.Context) error // ends the checks of the previous daemon
	cleared chan struct{}               // closed when clear has returned; no check runs before
	mu      sync.Mutex
	byPath  map[string]*Controller
}

// NewManager returns a Manager without pools; see Restore.
func NewManager(o Options) *Manager {
	m := &Manager{
		Options: o, cleared: make(chan struct{}), byPath: make(map[string]*Controller),
		clear: func(context.Context) error { return nil },
	}
	if m.Check == nil {
		r := NewRunner(o.Socket)
		m.Check, m.clear = r.Run, r.Clear
	}
	return m
}

// Of returns the controller of the pool at a path, or nil if there is none.
func (m *Manager) Of(path string) *Controller {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byPath[path]
}

// Has reports whether there is a pool at a path.
func (m *Manager) Has(path string) bool { return m.Of(path) != nil }

// all returns the pools sorted by path.
func (m *Manager) all() []*Controller {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.byPath), func(a, b *Controller) int {
		return strings.Compare(a.path, b.path)
	})
}

// Layout returns the tree of a file with the current instances of its pools. It includes pools that
// are no longer in the file but still have instances.
func (m *Manager) Layout(file *spec.Tree) *spec.Tree {
	declared := file.Pools()
	laid, retired := make(map[string][]string), make(map[string]*spec.Agent)
	for _, c := range m.all() {
		instances, template := c.laidOut()
		laid[c.path] = instances
		if declared[c.path] == nil && template != nil {
			retired[c.path] = template
		}
	}
	return file.Retain(retired).Layout(laid)
}

// Adjust changes the pools to those of a file that has been applied. Of the pools that are no longer
// declared, those in kept stay until their last instance has finished. It returns the pools that are
// newly retired.
func (m *Manager) Adjust(declared, kept map[string]*spec.Node) (retired []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, c := range m.byPath {
		switch {
		case declared[path] != nil:
		case kept[path] == nil:
			delete(m.byPath, path)
			close(c.gone)
			c.logRemoved()
		case c.retire():
			retired = append(retired, path)
		}
	}
	for path, n := range declared {
		if c := m.byPath[path]; c != nil {
			c.declare(n.Template)
			continue
		}
		c := newController(m, path, n.Template)
		m.byPath[path] = c
		m.Go(c.run)
	}
	return retired
}

// Wake wakes the control loop of the pool at a path, and of the pool with an instance at the path.
func (m *Manager) Wake(path string) {
	above, _ := cut(path)
	for _, at := range []string{above, path} {
		if c := m.Of(at); c != nil {
			signal(c.wake)
		}
	}
}

// CheckAll runs the checks of all pools now.
func (m *Manager) CheckAll() {
	for _, c := range m.all() {
		signal(c.checkNow)
	}
}

// Start starts the control loops. No check runs before all checks of the previous daemon have been
// ended, including those of pools that no longer exist.
func (m *Manager) Start() {
	m.Go(func(ctx context.Context) {
		defer close(m.cleared)
		if err := m.clear(ctx); err != nil && ctx.Err() == nil {
			m.Logger.Warn("cannot end the pool checks of the previous daemon", "error", err)
		}
	})
	for _, c := range m.all() {
		m.Go(c.run)
	}
}

// pauseOfWait is the interval at which AwaitFirst checks whether a pool still runs.
const pauseOfWait = 500 * time.Millisecond

// AwaitFirst waits until the fleet has the instances that the first checks have asked for. It does
// not wait for pools that do not run.
func (m *Manager) AwaitFirst(ctx context.Context) error {
	for _, c := range m.all() {
		for arrived := false; !arrived; {
			select {
			case <-c.first:
				arrived = true
			case <-time.After(pauseOfWait):
				arrived = !m.Fleet.Runs(c.path)
			case <-m.Ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// MayStart returns an error if an agent is an instance that its pool no longer wants, and which a
// person therefore cannot start.
func (m *Manager) MayStart(path string) error {
	if d, ok := m.Drains.Of(path); !ok || !d.Pool {
		return nil
	}
	above, _ := cut(path)
	return fmt.Errorf("%w: %s is no longer wanted by its pool and is asked to finish; "+
		"coppice explain %s says how many it wants", api.ErrConflict, path, above)
}

// signal puts a token into a channel with a buffer of one, unless it holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// cut splits the path of an instance into the path of its pool and its name.
func cut(path string) (above, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(0, i)], path[i+1:]
}
