package node_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/fenced"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl     = 20 * time.Second // so that a slow machine loses no lease
	timeout = 30 * time.Second
)

// fleet has a store, and nodes in this process.
type fleet struct {
	t     *testing.T
	s     *memory.Store
	certs *clustertest.Fleet
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t, memory.New(), clustertest.New(t)}
	t.Cleanup(func() { f.s.Close() })
	return f
}

// machine is a machine of the fleet, on which one process after the other is its node.
type machine struct {
	f       *fleet
	name    string
	dir     string
	current *identity.Identity
	files   atomic.Value // the revision of those of the project, a string
}

func (f *fleet) machine(name string) *machine {
	f.t.Helper()
	m := &machine{f: f, name: name, dir: f.t.TempDir(), current: f.certs.Node(f.t, name)}
	m.files.Store("first")
	if err := registry.Join(f.t.Context(), f.s, name, m.current.KeyHash()); err != nil {
		f.t.Fatal(err)
	}
	return m
}

// term is a term of a node, which the test ends.
type term struct {
	ctx   context.Context
	lease store.Lease
	end   chan result
}

type result struct {
	abandon bool
	err     error
}

// process is one run of a node.
type process struct {
	*machine
	n       *node.Node
	link    *node.Link
	stop    context.CancelFunc
	cancel  context.CancelCauseFunc
	terms   chan *term
	standby chan string
	holds   atomic.Bool  // it has said that it holds its lease since it has left
	left    atomic.Int32 // how often it has left
	loses   atomic.Bool  // it loses its lease, so that it cannot say that it leaves
	ended   chan error
}

// run has a machine be a node until stop is called.
func (m *machine) run() *process {
	t := m.f.t
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{machine: m, link: new(node.Link), terms: make(chan *term, 9), standby: make(chan string, 99),
		ended: make(chan error, 1)}
	p.n, err = node.Open(t.Context(), node.Options{
		Name: m.name, Info: func() registry.Info {
			return registry.Info{Address: l.Addr().String(), Version: "test", Files: m.files.Load().(string)}
		},
		Current: func() *identity.Identity { return m.current }, Listener: l, Join: http.NotFoundHandler(),
		Store: m.f.s, Link: p.link, TTL: ttl, LeaseFile: filepath.Join(m.dir, "leases.json"),
		DeadlineFile: filepath.Join(m.dir, "deadline"), Standby: func(why string) { p.standby <- why },
		Held: func() { p.holds.Store(true) }, Leave: p.leave, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := func() { cancel(nil) }
	p.stop, p.cancel = stop, cancel
	ready := func(context.Context) error {
		if err := deadline.Check(filepath.Join(m.dir, "deadline")); err != nil {
			t.Errorf("node %s is ready without a deadline: %v", m.name, err)
		}
		return nil
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.ended <- p.n.Run(ctx, ready, func(ctx context.Context, l store.Lease) (bool, error) {
			x := &term{ctx, l, make(chan result, 1)}
			p.terms <- x
			select {
			case r := <-x.end:
				return r.abandon, r.err
			case <-over:
				return false, nil
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		close(over)
		<-done
	})
	return p
}

// leave notes that the node has left. Until then it has its lease, or has lost it, and nothing can be started on it.
func (p *process) leave(ctx context.Context) {
	p.left.Add(1)
	if !p.holds.Swap(false) {
		p.f.t.Errorf("node %s leaves, and has not said that it holds its lease", p.name)
	}
	if p.n.Epoch() != 0 || ctx.Err() != nil {
		p.f.t.Errorf("node %s leaves with epoch %d, %v", p.name, p.n.Epoch(), ctx.Err())
	}
	if err := deadline.Check(filepath.Join(p.dir, "deadline")); !errors.Is(err, runtime.ErrFenced) {
		p.f.t.Errorf("node %s leaves, and agents can be started: %v", p.name, err)
	}
	self, err := registry.All(ctx, p.f.s)
	if err != nil {
		p.f.t.Error(err)
	}
	for _, n := range self {
		fence := store.Fence{Lease: registry.LeaseOf(n.Name), Epoch: n.Epoch}
		if _, err := p.f.s.Apply(ctx, fence, nil, nil); n.Name == p.name && err == nil && !n.Ends && !p.loses.Load() {
			p.f.t.Errorf("node %s leaves: %+v, its lease: %v", p.name, n, err)
		}
	}
}

// wantLeft fails the test unless the node has left so often.
func (p *process) wantLeft(times int32) {
	p.f.t.Helper()
	if n := p.left.Load(); n != times {
		p.f.t.Errorf("node %s has left %d times, want %d", p.name, n, times)
	}
}

// led waits until the node is the controller.
func (p *process) led() *term {
	p.f.t.Helper()
	select {
	case x := <-p.terms:
		return x
	case err := <-p.ended:
		p.f.t.Fatalf("node %s has ended: %v", p.name, err)
	case <-time.After(timeout):
		p.f.t.Fatalf("node %s is not elected", p.name)
	}
	return nil
}

// stoodBy waits until the node says why it is not the controller.
func (p *process) stoodBy(want string) {
	p.f.t.Helper()
	for late := time.After(timeout); ; {
		select {
		case why := <-p.standby:
			if strings.Contains(why, want) {
				return
			}
		case <-late:
			p.f.t.Fatalf("node %s does not stand by because %q", p.name, want)
		}
	}
}

// end waits until the process has ended.
func (p *process) end() error {
	p.f.t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(timeout):
		p.f.t.Fatalf("node %s does not end", p.name)
	}
	return nil
}

// lead has a term answer requests with the name of its node until it ends.
func (p *process) lead(x *term) {
	p.f.t.Helper()
	p.n.Lead(p.f.t.Context(), fenced.New(p.f.s, x.lease.Fence()), x.lease.Fence().Epoch)
	p.n.Mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, p.name) }))
	context.AfterFunc(x.ctx, func() { p.n.Mount(nil) })
}

// asks waits until requests from a node are answered by another one.
func (p *process) asks(want string) {
	p.f.t.Helper()
	last := ""
	for late := time.Now().Add(timeout); last != want; {
		req, err := http.NewRequestWithContext(p.f.t.Context(), http.MethodGet, "http://controller/", nil)
		if err != nil {
			p.f.t.Fatal(err)
		}
		resp, err := p.link.RoundTrip(req)
		if err != nil {
			last = err.Error()
		} else {
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			last = string(text)
		}
		if time.Now().After(late) {
			p.f.t.Fatalf("a request from %s is answered with %q, want %q", p.name, last, want)
		}
		if last != want {
			time.Sleep(time.Millisecond)
		}
	}
}

// One node leads, the other reaches it. When it stops in order, the other one leads at once.
func TestHandOver(t *testing.T) {
	f := newFleet(t)
	a := f.machine("a").run()
	first := a.led()
	a.lead(first)
	b := f.machine("b").run()
	b.stoodBy("the controller is node a")
	b.asks("a")
	a.asks("a")
	a.stop()
	<-first.ctx.Done()
	if cause := context.Cause(first.ctx); errors.Is(cause, election.ErrLost) {
		t.Error(cause)
	}
	select {
	case <-b.terms:
		t.Error("two controllers")
	default:
	}
	first.end <- result{}
	if err := a.end(); !errors.Is(err, context.Canceled) && err != nil {
		t.Error(err)
	}
	a.wantLeft(1)
	b.lead(b.led())
	b.asks("b")
}

// A node that is drained hands over, and leads again only when that has ended and the other is gone.
func TestDrain(t *testing.T) {
	f := newFleet(t)
	a := f.machine("a").run()
	first := a.led()
	b := f.machine("b").run()
	drain := func(draining bool) {
		t.Helper()
		if err := registry.SetDraining(t.Context(), f.s, "a", draining); err != nil {
			t.Fatal(err)
		}
	}
	drain(true)
	<-first.ctx.Done()
	if cause := context.Cause(first.ctx); !errors.Is(cause, node.ErrDraining) {
		t.Error(cause)
	}
	first.end <- result{}
	second := b.led()
	a.stoodBy("coppice node drain a --undo")
	b.stop()
	second.end <- result{}
	b.end()
	select {
	case <-a.terms:
		t.Error("a node that is drained leads")
	case <-time.After(20 * time.Millisecond):
	}
	drain(false)
	a.wantLeft(0)
	a.led()
}

// A node tells the others again what has changed of it, as often as that happens.
func TestInfoChanged(t *testing.T) {
	f := newFleet(t)
	a := f.machine("a").run()
	x := a.led()
	b := f.machine("b").run()
	for _, files := range []string{"first", "second", "third"} {
		a.files.Store(files)
		a.n.InfoChanged()
		for late := time.After(timeout); ; {
			_, changed := b.n.View().All()
			if now, _ := b.n.View().Get("a"); now.Files == files {
				break
			}
			select {
			case <-changed:
			case <-late:
				t.Fatalf("b does not know that a has the %s files", files)
			}
		}
	}
	if x.ctx.Err() != nil {
		t.Error("the controller has ended by it")
	}
}

// When the fleet is stopped all nodes end, and one that is started later does not.
func TestDown(t *testing.T) {
	f := newFleet(t)
	a := f.machine("a").run()
	first := a.led()
	a.lead(first)
	mb := f.machine("b")
	b := mb.run()
	b.asks("a")
	mine := fenced.New(f.s, first.lease.Fence())
	if err := a.n.StopFleet(t.Context(), mine, first.lease.Fence().Epoch); err != nil {
		t.Fatal(err)
	}
	first.end <- result{}
	if err := a.end(); err != nil {
		t.Error(err)
	}
	if err := b.end(); !errors.Is(err, node.ErrDown) {
		t.Error(err)
	}
	b.wantLeft(1)
	mb.run().led()
}

// A process that was killed, or has left the agents, is followed by one that goes on with its leases.
func TestResume(t *testing.T) {
	f := newFleet(t)
	m := f.machine("a")
	a := m.run()
	first := a.led()
	epoch := a.n.Epoch()
	first.end <- result{abandon: true}
	if err := a.end(); err != nil {
		t.Error(err)
	}
	a.wantLeft(0)
	b := f.machine("b").run() // waits
	again := m.run()
	second := again.led()
	if second.lease.Fence() != first.lease.Fence() || again.n.Epoch() != epoch {
		t.Errorf("%v after %v, %d after %d", second.lease.Fence(), first.lease.Fence(), again.n.Epoch(), epoch)
	}
	select {
	case <-b.terms:
		t.Error("two controllers")
	default:
	}
}

// A node that keeps its agents keeps its lease, whether it is the controller or stands by.
func TestKeeping(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*term) // the term; nil: the node stands by
		left int32
	}{
		{name: "standby"},
		{"controller", func(x *term) { x.end <- result{abandon: true} }, 0},
		{"a term that has failed", func(x *term) { x.end <- result{err: errors.New("it rains")} }, 0},
		{"a term that has lost its lease", func(x *term) { x.end <- result{err: node.ErrSteppedDown} }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t)
			if tt.end == nil {
				other := f.machine("other").run()
				other.lead(other.led())
			}
			m := f.machine("a")
			a := m.run()
			var x *term
			if tt.end == nil {
				a.asks("other")
			} else {
				x = a.led()
			}
			epoch := a.n.Epoch()
			a.cancel(node.ErrKeeping)
			if x != nil {
				<-x.ctx.Done()
				tt.end(x)
			}
			a.end()
			a.wantLeft(tt.left)
			again := m.run()
			wait(t, "a lease", func() bool { return again.n.Epoch() != 0 })
			if kept := again.n.Epoch() == epoch; kept != (tt.left == 0) {
				t.Errorf("the lease has epoch %d, before it had %d", again.n.Epoch(), epoch)
			}
		})
	}
}

// A term that has lost its lease ends with that cause. The node then gives up its own lease, and stands by.
func TestSteppedDown(t *testing.T) {
	f := newFleet(t)
	a := f.machine("a").run()
	first := a.led()
	epoch := a.n.Epoch()
	stolen, err := f.s.Resume(t.Context(), first.lease.Fence(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	<-first.ctx.Done()
	if cause := context.Cause(first.ctx); !errors.Is(cause, election.ErrLost) {
		t.Error(cause)
	}
	first.end <- result{err: node.ErrSteppedDown}
	wait(t, "the lease of the node to be given up", func() bool {
		_, err := f.s.Apply(t.Context(), store.Fence{Lease: registry.LeaseOf("a"), Epoch: epoch}, nil, nil)
		return errors.Is(err, store.ErrFenced)
	})
	wait(t, "another lease of the node", func() bool { return a.n.Epoch() > epoch })
	a.wantLeft(1)
	if err := stolen.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.led()
}

// A node that has lost its own lease is no controller either, and nothing can be started on it until it has another.
func TestNodeLeaseLost(t *testing.T) {
	f := newFleet(t)
	m := f.machine("a")
	a := m.run()
	first := a.led()
	a.loses.Store(true)
	fence := store.Fence{Lease: registry.LeaseOf("a"), Epoch: a.n.Epoch()}
	stolen, err := f.s.Resume(t.Context(), fence, ttl)
	if err != nil {
		t.Fatal(err)
	}
	<-first.ctx.Done()
	if cause := context.Cause(first.ctx); !errors.Is(cause, election.ErrLost) {
		t.Error(cause)
	}
	first.end <- result{err: node.ErrSteppedDown}
	wait(t, "the node to leave", func() bool { return a.left.Load() == 1 })
	if err := stolen.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := a.led()
	if err := deadline.Check(filepath.Join(m.dir, "deadline")); err != nil {
		t.Error(err)
	}
	if second.lease.Fence().Epoch <= first.lease.Fence().Epoch {
		t.Errorf("%v after %v", second.lease.Fence(), first.lease.Fence())
	}
}

// A node that was removed ends, and is not admitted by others.
func TestRemoved(t *testing.T) {
	f := newFleet(t)
	a := f.machine("a").run()
	a.lead(a.led())
	mb := f.machine("b")
	b := mb.run()
	b.asks("a")
	if err := registry.Remove(t.Context(), f.s, "b"); err != nil {
		t.Fatal(err)
	}
	if err := b.end(); !errors.Is(err, registry.ErrRemoved) {
		t.Error(err)
	}
	_, err := node.Open(t.Context(), node.Options{
		Name: "b", Current: func() *identity.Identity { return mb.current }, Store: f.s, Logger: slog.Default(),
	})
	if !errors.Is(err, registry.ErrRemoved) {
		t.Error(err)
	}
}

// Requests that wait for a controller that is replaced are given up, and those without one say why.
func TestLink(t *testing.T) {
	var l node.Link
	ask := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := l.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := ask(); !errors.Is(err, api.ErrNoController) || !strings.Contains(err.Error(), "starting") {
		t.Error(err)
	}
	l.Unavailable("it rains")
	if err := ask(); !errors.Is(err, api.ErrNoController) || !strings.Contains(err.Error(), "it rains") {
		t.Error(err)
	}
	f := newFleet(t)
	a := f.machine("a").run()
	first := a.led()
	a.lead(first)
	b := f.machine("b").run()
	b.asks("a")
	begun := make(chan struct{})
	a.n.Mount(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	}))
	var wg sync.WaitGroup
	wg.Go(func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		resp, err := b.link.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if err == nil || errors.Is(err, api.ErrNoController) || !strings.Contains(err.Error(), "replaced") {
			t.Errorf("a request that may have been carried out: %v", err)
		}
	})
	<-begun
	b.link.Unavailable("another one is elected")
	wg.Wait()
}

// wait polls until something is so.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(timeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it does not come: ", what)
		}
	}
}
