package placing_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/fenced"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl   = 10 * time.Second
	grace = 3 * time.Second
)

// machine is the runtime of a node, of which the tests say when agents end.
type machine struct {
	runtime.Runtime // panics where a test does not expect a call
	mu              sync.Mutex
	slots           map[string]*slot
	fenced          bool
	dead            bool // its daemon does not renew the lease
	unreachable     bool // for other nodes
	mute            bool // the answers to starts by other nodes are lost
	commands        []string
	files           map[string]uint64 // incarnations whose files these are, by path
	removed         []string          // paths of agents
}

type slot struct {
	o        runtime.Observation
	sessions []*session
}

// session is one of an incarnation, which other machines may have, too.
type session struct {
	runtime.Session
	once sync.Once
	done chan struct{}
	mu   sync.Mutex
	o    runtime.Observation
}

func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) Observe() runtime.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o
}

func (s *session) Exit() supervisor.Exit { return s.Observe().Exit }

func (s *session) Lost(e supervisor.Exit, at time.Time) {
	s.once.Do(func() {
		s.mu.Lock()
		s.o.Life, s.o.Exit, s.o.ExitedAt = runtime.Dead, e, at
		s.mu.Unlock()
		close(s.done)
	})
}

func newMachine() *machine { return &machine{slots: map[string]*slot{}} }

func (*machine) Kind() string { return "proc" }

func (m *machine) Start(_ context.Context, l runtime.Launch) (runtime.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s := m.slots[l.Path]; {
	case m.fenced:
		return nil, runtime.ErrFenced
	case s != nil && s.o.Life == runtime.Alive:
		return nil, runtime.ErrBusy
	case s != nil && l.Incarnation <= s.o.Incarnation:
		return nil, runtime.ErrStale
	}
	s := &slot{o: runtime.Observation{
		Path: l.Path, Incarnation: l.Incarnation, Life: runtime.Alive, Token: l.Token,
	}}
	m.slots[l.Path] = s
	return s.session(), nil
}

// session needs the mu of the machine.
func (s *slot) session() *session {
	a := &session{done: make(chan struct{}), o: s.o}
	if s.sessions = append(s.sessions, a); s.o.Life == runtime.Dead {
		a.Lost(s.o.Exit, s.o.ExitedAt)
	}
	return a
}

func (m *machine) Adopt(_ context.Context, path string) (runtime.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.slots[path] == nil {
		return nil, fs.ErrNotExist
	}
	return m.slots[path].session(), nil
}

func (m *machine) Ready(_ context.Context, path string, incarnation uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[path]
	if s == nil || s.o.Incarnation != incarnation || s.o.Life == runtime.Dead {
		return runtime.ErrStale
	}
	s.o.Ready = true
	return nil
}

func (m *machine) List(context.Context) (all []runtime.Observation, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.slots {
		all = append(all, s.o)
	}
	return all, nil
}

func (m *machine) Remove(_ context.Context, path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s := m.slots[path]; {
	case s == nil:
		return fs.ErrNotExist
	case s.o.Life == runtime.Alive:
		return runtime.ErrBusy
	}
	delete(m.slots, path)
	return nil
}

func (m *machine) Removed() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.removed, nil
}

// ReadFile returns the name of a file.
func (m *machine) ReadFile(_ context.Context, path string, incarnation uint64, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[path] != incarnation {
		return nil, fs.ErrNotExist
	}
	return []byte(name), nil
}

// Exec notes a command. "wait" waits for the end of ctx.
func (m *machine) Exec(ctx context.Context, l runtime.Launch, _ func(proc.Line)) ([]string, error) {
	m.mu.Lock()
	m.commands = append(m.commands, l.Argv[0])
	m.mu.Unlock()
	if l.Argv[0] == "wait" {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return nil, nil
}

// ran returns the commands since the last call.
func (m *machine) ran() (all []string) {
	m.set(func(*machine) { all, m.commands = m.commands, nil })
	return all
}

// end ends what runs in a slot.
func (m *machine) end(path string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.slots[path]; s != nil && s.o.Life == runtime.Alive {
		s.o.Life, s.o.Exit = runtime.Dead, supervisor.Exit{Kind: supervisor.Failure, Err: err}
		for _, a := range s.sessions {
			a.Lost(s.o.Exit, time.Now())
		}
	}
}

// alive returns the paths of what runs.
func (m *machine) alive() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, s := range m.slots {
		if s.o.Life == runtime.Alive {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

func (m *machine) set(f func(*machine)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

// away is a machine as other nodes have it.
type away struct{ *node }

func (a away) reach() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unreachable {
		return fmt.Errorf("%w: node %s does not answer", runtime.ErrUnknown, a.name)
	}
	return nil
}

func (a away) ReadFile(ctx context.Context, path string, incarnation uint64, name string) ([]byte, error) {
	if err := a.reach(); err != nil {
		return nil, err
	}
	return a.machine.ReadFile(ctx, path, incarnation, name)
}

func (a away) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	if err := a.reach(); err != nil {
		return nil, err
	}
	if epoch := a.epoch(); epoch == 0 || epoch != l.Lease {
		return nil, runtime.ErrFenced
	}
	s, err := a.machine.Start(ctx, l)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mute {
		return nil, fmt.Errorf("%w: no answer", runtime.ErrUnknown)
	}
	return s, err
}

func (a away) Exec(ctx context.Context, l runtime.Launch, line func(proc.Line)) ([]string, error) {
	if err := a.reach(); err != nil {
		return nil, err
	}
	if epoch := a.epoch(); epoch == 0 || epoch != l.Lease {
		return nil, runtime.ErrFenced
	}
	return a.machine.Exec(ctx, l, line)
}

func (a away) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	if err := a.reach(); err != nil {
		return nil, err
	}
	return a.machine.Adopt(ctx, path)
}

func (a away) Ready(ctx context.Context, path string, incarnation uint64) error {
	if err := a.reach(); err != nil {
		return err
	}
	return a.machine.Ready(ctx, path, incarnation)
}

// Removed hangs while the node does not answer.
func (a away) Removed() ([]string, error) {
	for a.reach() != nil {
		time.Sleep(time.Second)
	}
	return a.machine.Removed()
}

func (a away) List(ctx context.Context) ([]runtime.Observation, error) {
	if err := a.reach(); err != nil {
		return nil, err
	}
	return a.machine.List(ctx)
}

func (a away) Remove(ctx context.Context, path string) error {
	if err := a.reach(); err != nil {
		return err
	}
	return a.machine.Remove(ctx, path)
}

// node is a node of a test, with its lease.
type node struct {
	name string
	*machine
	lease store.Lease // use held
	drain bool
}

func newNode(t testing.TB, s store.Store, name string) *node {
	n := &node{name: name, machine: newMachine()}
	n.acquire(t, s)
	return n
}

func (n *node) acquire(t testing.TB, s store.Store) {
	t.Helper()
	l, err := s.Acquire(t.Context(), registry.LeaseOf(n.name), ttl)
	if err != nil {
		t.Fatal(err)
	}
	n.set(func(*machine) { n.lease = l })
}

// held returns the last lease of a node.
func (n *node) held() (l store.Lease) {
	n.set(func(*machine) { l = n.lease })
	return l
}

func (n *node) epoch() uint64 {
	l := n.held()
	select {
	case <-l.Done():
		return 0
	default:
		return l.Fence().Epoch
	}
}

// setDraining begins or ends the draining of a node.
func (n *node) setDraining(on bool) { n.set(func(*machine) { n.drain = on }) }

func (n *node) isDraining() (on bool) {
	n.set(func(*machine) { on = n.drain })
	return on
}

// controller is what one term of a controller has.
type controller struct {
	lease  store.Lease
	leases *leases.Tracker
	places *placing.Places
	*placing.Runtime
	wants    map[string]placement.Want // by path; the node of the controller if there is none
	epochs   sync.Map                  // by node, if they are not those of their leases
	mu       sync.Mutex
	lost     []string // nodes
	homeless []string
	end      func()
}

// hasLost reports whether a node is known to be lost.
func (c *controller) hasLost(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.lost, node)
}

// known returns the epoch of a node, if it is not that of its lease.
func (c *controller) known(node string) uint64 {
	epoch, _ := c.epochs.Load(node)
	n, _ := epoch.(uint64)
	return n
}

// lead begins a term on a node. others are the other nodes of the fleet.
func lead(t testing.TB, s store.Store, n *node, others ...*node) *controller {
	t.Helper()
	return leadKnowing(t, s, nil, n, others...)
}

// leadKnowing is lead on a node that knows which leases have ended.
func leadKnowing(t testing.TB, s store.Store, known *leases.Tracker, n *node, others ...*node) *controller {
	t.Helper()
	l, err := s.Acquire(t.Context(), "controller", ttl)
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{lease: l, wants: map[string]placement.Want{}}
	all := append([]*node{n}, others...)
	nodes := func() (known []registry.Node) {
		for _, n := range all {
			known = append(known, registry.Node{
				Name: n.name, Epoch: cmp.Or(c.known(n.name), n.held().Fence().Epoch), Draining: n.isDraining(),
			})
		}
		return known
	}
	if c.leases = known; known == nil {
		c.leases = leases.New(s, func() ([]registry.Node, <-chan struct{}) { return nodes(), nil })
	}
	c.places, err = placing.Open(t.Context(), placing.Options{
		Store: fenced.New(s, l.Fence()), Node: n.name, Epoch: n.epoch, Logger: slog.New(slog.DiscardHandler),
		Nodes: nodes, Leases: c.leases,
		Runtime: func(name, _ string) runtime.Runtime {
			i := slices.IndexFunc(others, func(n *node) bool { return n.name == name })
			if i < 0 {
				t.Errorf("there is no node %s", name)
				return nil
			}
			return away{others[i]}
		},
		Lost: func(node string, _ uint64) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lost = append(c.lost, node)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.places.Follow(func(path string) (placement.Want, error) {
		if w, ok := c.wants[path]; ok {
			return w, nil
		}
		return placement.Want{Path: path, Node: n.name}, nil
	}, func(path string) { c.homeless = append(c.homeless, path) })
	c.Runtime = placing.New(n.machine, c.places)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.leases.Run(ctx) })
	running.Go(func() { c.places.Run(ctx) })
	running.Go(func() { renew(ctx, l) })
	c.end = func() {
		cancel()
		running.Wait()
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	return c
}

// renew renews a lease until ctx ends.
func renew(ctx context.Context, l store.Lease) {
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.Renew(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func launch(path string, incarnation uint64) runtime.Launch {
	return runtime.Launch{Path: path, Incarnation: incarnation, Token: fmt.Sprint(path, incarnation), Grace: grace}
}

func (c *controller) observe(t testing.TB, path string) runtime.Observation {
	t.Helper()
	all, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []runtime.Observation
	for _, o := range all {
		if o.Path == path {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s is listed %d times: %v", path, len(found), all)
	}
	return found[0]
}

// errCrashed is the exit of an agent that has crashed.
var errCrashed = errors.New("crashed")
