package placing_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/fenced"
	"github.com/coppice-dev/coppice/internal/store/memory"
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
}

type slot struct {
	o    runtime.Observation
	done chan struct{}
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
	m.slots[l.Path] = &slot{
		runtime.Observation{Path: l.Path, Incarnation: l.Incarnation, Life: runtime.Alive, Token: l.Token},
		make(chan struct{}),
	}
	return nil, nil
}

func (m *machine) Adopt(_ context.Context, path string) (runtime.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.slots[path] == nil {
		return nil, fs.ErrNotExist
	}
	return nil, nil
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

// end ends what runs in a slot.
func (m *machine) end(path string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.slots[path]; s != nil && s.o.Life == runtime.Alive {
		s.o.Life, s.o.Exit = runtime.Dead, supervisor.Exit{Kind: supervisor.Failure, Err: err}
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

// node is a node of a test, with its lease.
type node struct {
	name string
	*machine
	lease store.Lease
}

func (n *node) acquire(t testing.TB, s store.Store) {
	t.Helper()
	l, err := s.Acquire(t.Context(), registry.LeaseOf(n.name), ttl)
	if err != nil {
		t.Fatal(err)
	}
	n.lease = l
}

func (n *node) epoch() uint64 {
	select {
	case <-n.lease.Done():
		return 0
	default:
		return n.lease.Fence().Epoch
	}
}

// controller is what one term of a controller has.
type controller struct {
	lease  store.Lease
	places *placing.Places
	*placing.Runtime
	lost []string // nodes
	end  func()
}

// lead begins a term on a node.
func lead(t testing.TB, s store.Store, n *node) *controller {
	t.Helper()
	l, err := s.Acquire(t.Context(), "controller", ttl)
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{lease: l}
	var mu sync.Mutex
	c.places, err = placing.Open(t.Context(), placing.Options{
		Store: fenced.New(s, l.Fence()), Node: n.name, Epoch: n.epoch, Logger: slog.New(slog.DiscardHandler),
		Lost: func(node string, _ uint64) {
			mu.Lock()
			defer mu.Unlock()
			c.lost = append(c.lost, node)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Runtime = placing.New(n.machine, c.places)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
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

// An agent of a lost node is unknown until its lease has ended and the agent has had time to stop. Then it is dead,
// and can be started elsewhere.
func TestLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := &node{name: "a", machine: newMachine()}, &node{name: "b", machine: newMachine()}
		a.acquire(t, s)
		b.acquire(t, s)
		first := lead(t, s, a)
		if _, err := first.Start(t.Context(), launch("x", 1)); err != nil {
			t.Fatal(err)
		}
		first.end() // and nothing renews the lease of a any more
		next := lead(t, s, b)
		defer func() { next.end() }()
		begun := time.Now()
		for {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if b.epoch() != 0 {
				if err := b.lease.Renew(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			passed := time.Since(begun)
			_, startErr := next.Start(t.Context(), launch("x", 2))
			if o := next.observe(t, "x"); startErr != nil && o.Life != runtime.Unknown {
				t.Fatalf("after %v it is %v, and a start fails: %v", passed, o.Life, startErr)
			}
			if startErr == nil {
				if passed < ttl+grace || passed > ttl+grace+3*time.Second {
					t.Errorf("it was started elsewhere after %v", passed)
				}
				break
			}
			if !errors.Is(startErr, runtime.ErrUnknown) {
				t.Fatalf("after %v: %v", passed, startErr)
			}
			if passed > time.Minute {
				t.Fatal("it is never started elsewhere: ", startErr)
			}
		}
		if !slices.Equal(next.lost, []string{"a"}) {
			t.Errorf("lost nodes: %v", next.lost)
		}
		if got := b.alive(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("on b: %v", got)
		}
		if place, _ := next.places.Of("x"); place.Node != "b" || place.Incarnation != 2 {
			t.Errorf("%+v", place)
		}
	})
}

// What is known of an incarnation that was lost: its exit names the node, and it is adopted as ended.
func TestLostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := &node{name: "a", machine: newMachine()}, &node{name: "b", machine: newMachine()}
		a.acquire(t, s)
		b.acquire(t, s)
		first := lead(t, s, a)
		if _, err := first.Start(t.Context(), launch("x", 4)); err != nil {
			t.Fatal(err)
		}
		first.end()
		next := lead(t, s, b)
		defer next.end()
		if _, err := next.Adopt(t.Context(), "x"); !errors.Is(err, runtime.ErrUnknown) ||
			!strings.Contains(err.Error(), "lease has not ended") {
			t.Error(err)
		}
		if err := a.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if o := next.observe(t, "x"); o.Life != runtime.Unknown || !strings.Contains(o.Detail, "node a, which is lost") {
			t.Errorf("%+v", o)
		}
		given, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := next.Adopt(given, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		session, err := next.Adopt(t.Context(), "x") // waits until it has ended
		if err != nil {
			t.Fatal(err)
		}
		<-session.Done()
		exit, o := session.Exit(), session.Observe()
		if exit.Kind != supervisor.Lost || !errors.Is(exit.Err, runtime.ErrNodeLost) || !strings.Contains(exit.String(), "node a") {
			t.Error(exit)
		}
		if o.Incarnation != 4 || o.Token != "x4" || o.Life != runtime.Dead || o.ExitedAt.IsZero() {
			t.Errorf("%+v", o)
		}
		for _, n := range []uint64{3, 4} {
			if _, err := next.Start(t.Context(), launch("x", n)); !errors.Is(err, runtime.ErrStale) {
				t.Errorf("incarnation %d: %v", n, err)
			}
		}
		if err := next.Remove(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		if all, err := next.List(t.Context()); err != nil || len(all) != 0 {
			t.Error(all, err)
		}
	})
}

// A controller that has lost its lease, and a node without one, start nothing.
func TestFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a := &node{name: "a", machine: newMachine()}
		a.acquire(t, s)
		c := lead(t, s, a)
		if err := a.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Start(t.Context(), launch("x", 1)); !errors.Is(err, runtime.ErrFenced) {
			t.Error("without a lease of the node: ", err)
		}
		a.acquire(t, s)
		c.end()
		if _, err := c.Start(t.Context(), launch("x", 1)); !errors.Is(err, runtime.ErrFenced) {
			t.Error("without a lease of the controller: ", err)
		}
		if got := a.alive(); len(got) != 0 {
			t.Errorf("it runs: %v", got)
		}
	})
}

// What has ended in order can be started elsewhere at once, and what is left of it here is neither listed nor in the way.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := &node{name: "a", machine: newMachine()}, &node{name: "b", machine: newMachine()}
		a.acquire(t, s)
		b.acquire(t, s)
		c := lead(t, s, a)
		for _, path := range []string{"x", "y"} {
			if _, err := c.Start(t.Context(), launch(path, 1)); err != nil {
				t.Fatal(err)
			}
		}
		a.end("x", nil)
		if err := c.places.Settle(t.Context(), []runtime.Runtime{a.machine}); err != nil {
			t.Fatal(err)
		}
		c.end()
		next := lead(t, s, b)
		if _, err := next.Start(t.Context(), launch("x", 2)); err != nil {
			t.Error(err)
		}
		if _, err := next.Start(t.Context(), launch("y", 2)); !errors.Is(err, runtime.ErrUnknown) {
			t.Error("it still runs on a: ", err)
		}
		next.end()
		again := lead(t, s, a)
		defer again.end()
		if o := again.observe(t, "y"); o.Life != runtime.Alive {
			t.Errorf("%+v", o)
		}
		evict := func(context.Context, string) error { t.Error("something was stopped"); return nil }
		if err := again.Sweep(t.Context(), evict); err != nil {
			t.Error(err)
		}
		if o := again.observe(t, "x"); o.Life != runtime.Unknown || o.Incarnation != 2 {
			t.Errorf("%+v", o)
		}
		if err := b.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(grace + 3*time.Second)
		if _, err := again.Start(t.Context(), launch("x", 3)); err != nil {
			t.Error(err)
		}
		if o := again.observe(t, "x"); o.Life != runtime.Alive || o.Incarnation != 3 {
			t.Errorf("%+v", o)
		}
	})
}

// A record that cannot be read is no reason to start an agent twice.
func TestDamaged(t *testing.T) {
	s := memory.New()
	defer s.Close()
	for _, value := range []string{"", "{}", `{"path":"y","node":"a"}`, `{"path":"x"}`, "[1"} {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil,
			[]store.Op{{Kind: store.Put, Key: placing.Prefix + "/x", Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
		_, err := placing.Open(t.Context(), placing.Options{Store: s, Node: "b", Logger: slog.Default()})
		if err == nil || !strings.Contains(err.Error(), "cluster/places/x") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// What runs here although it was placed elsewhere since is stopped before anything else.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := &node{name: "a", machine: newMachine()}, &node{name: "b", machine: newMachine()}
		a.acquire(t, s)
		b.acquire(t, s)
		c := lead(t, s, b)
		if _, err := c.Start(t.Context(), launch("x", 2)); err != nil {
			t.Fatal(err)
		}
		c.end()
		for _, path := range []string{"x", "y"} {
			if _, err := a.machine.Start(t.Context(), launch(path, 1)); err != nil {
				t.Fatal(err)
			}
		}
		again := lead(t, s, a)
		defer again.end()
		var stopped []string
		err := again.Sweep(t.Context(), func(_ context.Context, path string) error {
			stopped = append(stopped, path)
			return nil
		})
		if err != nil || !slices.Equal(stopped, []string{"x"}) {
			t.Errorf("stopped: %v, %v", stopped, err)
		}
	})
}

// TestNeverTwice: whatever happens to nodes and controllers, no agent runs on two nodes.
func TestNeverTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 8), 5, 60).Draw(rt, "steps")
		picks := rapid.SliceOfN(rapid.IntRange(0, 1000), len(steps), len(steps)).Draw(rt, "picks")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 8000), len(steps), len(steps)).Draw(rt, "pauses in ms")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.close()
			for i, step := range steps {
				w.step(step, picks[i])
				time.Sleep(time.Duration(pauses[i]) * time.Millisecond)
				synctest.Wait()
				w.check()
			}
		})
	})
}

// world has nodes whose guards end their agents at the deadline, in the time that each has.
type world struct {
	t     *testing.T
	s     *memory.Store
	nodes []*node
	c     *controller
	on    *node // of the controller
	next  map[string]uint64
	ends  context.CancelFunc
	wg    sync.WaitGroup
	ctx   context.Context
}

var paths = []string{"x", "y", "z"}

func newWorld(t *testing.T) *world {
	w := &world{t: t, s: memory.New(), next: map[string]uint64{}}
	w.ctx, w.ends = context.WithCancel(t.Context())
	for _, name := range []string{"a", "b", "c"} {
		n := &node{name: name, machine: newMachine()}
		n.acquire(t, w.s)
		w.nodes = append(w.nodes, n)
		w.guard(n)
	}
	return w
}

func (w *world) close() {
	if w.c != nil {
		w.c.end()
	}
	w.ends()
	w.wg.Wait()
	w.s.Close()
}

// guard ends the agents of a node when its lease has ended, each at the end of its grace.
func (w *world) guard(n *node) {
	l := n.lease
	w.wg.Go(func() {
		select {
		case <-l.Done():
		case <-w.ctx.Done():
			return
		}
		n.mu.Lock()
		n.fenced = true
		n.mu.Unlock()
		time.Sleep(grace)
		for _, path := range n.machine.alive() {
			n.machine.end(path, runtime.ErrDeadline)
		}
	})
	w.wg.Go(func() {
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if !n.isDead() {
					l.Renew(w.ctx)
				}
			case <-l.Done():
				return
			case <-w.ctx.Done():
				return
			}
		}
	})
}

func (m *machine) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *machine) setDead(dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = dead
}

func (w *world) step(step, pick int) {
	n, path := w.nodes[pick%len(w.nodes)], paths[pick%len(paths)]
	switch step {
	case 0, 1, 2: // start what does not run, as far as the controller knows
		if w.c == nil {
			return
		}
		all, err := w.c.List(w.ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range all {
			if o.Path == path {
				w.next[path] = max(w.next[path], o.Incarnation)
			}
		}
		w.next[path]++
		w.c.Start(w.ctx, launch(path, w.next[path]))
	case 3: // an agent crashes
		n.machine.end(path, errors.New("crashed"))
	case 4: // a daemon is killed: nothing renews the lease of its node
		n.setDead(true)
	case 5: // it comes back
		if n.epoch() == 0 && len(n.machine.alive()) == 0 {
			n.acquire(w.t, w.s)
			n.mu.Lock()
			n.fenced = false
			n.mu.Unlock()
			n.setDead(false)
			w.guard(n)
		}
	case 6, 7: // another controller, which the last one may not know
		if w.c != nil {
			w.c.end()
			w.c = nil
		}
		if n.epoch() != 0 {
			w.c, w.on = lead(w.t, w.s, n), n
			w.c.Sweep(w.ctx, func(_ context.Context, path string) error {
				n.machine.end(path, runtime.ErrDeadline)
				return nil
			})
		}
	case 8: // an agent is removed
		if w.c != nil {
			w.c.Remove(w.ctx, path)
		}
	}
}

func (w *world) check() {
	w.t.Helper()
	where := map[string]string{}
	for _, n := range w.nodes {
		for _, path := range n.machine.alive() {
			if where[path] != "" {
				w.t.Fatalf("%s runs on %s and on %s", path, where[path], n.name)
			}
			where[path] = n.name
		}
	}
}
