package output

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/remote"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/store"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{"shim": server.Main})
}

const testTimeout = 30 * time.Second

func ctxOf(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// machine is a node of a fleet that serves its runtime to the others.
type machine struct {
	name    string
	local   runtime.Runtime
	id      *identity.Identity
	address string

	mu    sync.Mutex
	cut   bool
	conns []net.Conn // to the node
}

// newMachines returns nodes with the names n1, n2 and so on.
func newMachines(t testing.TB, locals ...runtime.Runtime) (all []*machine) {
	f := clustertest.New(t)
	for i, local := range locals {
		m := &machine{name: "n" + string(rune('1'+i)), local: local}
		m.id = f.Node(t, m.name)
		admit := func(string, [32]byte) error { return nil }
		s := remote.NewServer(remote.Options{
			Runtimes: []runtime.Runtime{local}, Check: func(context.Context, store.Fence) error { return nil },
			Admit: admit, Logger: slog.New(slog.DiscardHandler), Epoch: func() uint64 { return 1 },
			Localize: func(*runtime.Launch) error { return nil },
		})
		m.address = clustertest.Serve(t, mtls.Server(func() *identity.Identity { return m.id }, admit), s)
		t.Cleanup(s.Close)
		all = append(all, m)
	}
	return all
}

// dial connects to the node from another one.
func (m *machine) dial(from *machine) func(context.Context) (net.Conn, error) {
	d := tls.Dialer{Config: mtls.Client(func() *identity.Identity { return from.id }, mtls.Peer{Name: m.name})}
	return func(ctx context.Context) (net.Conn, error) {
		c, err := d.DialContext(ctx, "tcp", m.address)
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case m.cut:
			c.Close()
			return nil, errors.New("no route to host")
		}
		m.conns = append(m.conns, c)
		return c, nil
	}
}

// setCut cuts the node off from the others, or lets them reach it again.
func (m *machine) setCut(cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = cut
	for _, c := range m.conns {
		c.(*tls.Conn).NetConn().Close()
	}
	m.conns = nil
}

// controller runs the agents of a fleet, with its Service.
type controller struct {
	*Service
	here    *machine
	far     map[string]*remote.Runtime
	agents  []string // their paths
	ended   chan struct{}
	mu      sync.Mutex
	places  []string // nodes that have run the agents, the newest last
	session map[string]runtime.Session
}

// lead makes a node the controller of agents.
func lead(t testing.TB, here *machine, all []*machine, places []string, agents ...string) *controller {
	c := &controller{
		here: here, far: make(map[string]*remote.Runtime), agents: agents, places: slices.Clone(places),
		ended: make(chan struct{}), session: make(map[string]runtime.Session),
	}
	for _, m := range all {
		if m == here {
			continue
		}
		client := remote.NewClient(remote.ClientOptions{
			Node: m.name, Dial: m.dial(here), Logger: slog.New(slog.DiscardHandler),
			Fence: func() store.Fence { return store.Fence{Lease: "controller", Epoch: 1} },
		})
		t.Cleanup(func() { client.Close() })
		c.far[m.name] = client.Runtime("proc")
	}
	c.Service = New(Options{Tree: c, Agents: c, Node: here.name, Ended: c.ended})
	return c
}

func (c *controller) Kind() string { return "proc" }
func (c *controller) Runtimes() map[string]runtime.Runtime {
	return map[string]runtime.Runtime{"proc": c.Home("")}
}
func (c *controller) Home(string) runtime.Runtime    { return placed{c.here.local, c} }
func (c *controller) Full(path string) string        { return cmp.Or(path, "t") }
func (c *controller) NotFound(string) error          { return api.ErrNotFound }
func (c *controller) HasAgent(path string) bool      { return slices.Contains(c.agents, path) }
func (c *controller) HasSupervisor(path string) bool { return path == "t" }
func (c *controller) StartOrder() []string           { return c.agents }
func (c *controller) LastIncarnation(string) uint64  { return 1 }

func (c *controller) Session(path string) runtime.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session[path]
}

// move notes where an agent runs.
func (c *controller) move(node, path string, s runtime.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places = append(slices.DeleteFunc(c.places, func(n string) bool { return n == node }), node)
	c.session[path] = s
}

// placed is a runtime of several nodes.
type placed struct {
	runtime.Runtime
	c *controller
}

func (p placed) Logs(path string) (all []logfile.NodeLog) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for i, node := range p.c.places {
		if rt := p.c.far[node]; rt != nil {
			all = append(all, logfile.NodeLog{
				Node: node, Current: i == len(p.c.places)-1,
				Open: func(ctx context.Context, s logfile.Start) logfile.Reader { return rt.Tail(ctx, path, s) },
			})
		}
	}
	return all
}

// files is a runtime that has logs only.
type files struct {
	runtime.Runtime
	dir string
}

func (files) Kind() string               { return "proc" }
func (files) Removed() ([]string, error) { return nil, nil }
func (f files) Log(path string) (string, error) {
	return filepath.Join(f.dir, strings.ReplaceAll(path, "/", "+")), nil
}

// scripted is a session that does what a test says.
type scripted struct {
	runtime.Session
	follow     func(grew func()) error
	unfinished func(f func(string)) error
}

func (s *scripted) Follow(_ context.Context, grew func()) error { return s.follow(grew) }
func (s *scripted) Unfinished(_ context.Context, f func(string)) error {
	return s.unfinished(f)
}
