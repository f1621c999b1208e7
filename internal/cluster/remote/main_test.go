package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/internal/store"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{
		"shim":             server.Main,
		pane.Arg:           pane.Main,
		runtimetest.SayArg: runtimetest.SayRole,
	})
}

const testTimeout = 30 * time.Second

func ctxOf(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// pair is two nodes of a fleet: the controller and another one, which serves its runtimes on an address.
type pair struct {
	fleet             *clustertest.Fleet
	controller, other *identity.Identity
	epoch             atomic.Uint64 // of the lease of the other node

	mu    sync.Mutex
	fence store.Fence             // that the node accepts
	admit func(name string) error // by the node
}

func newPair(t testing.TB) *pair {
	f := clustertest.New(t)
	p := &pair{
		fleet: f, controller: f.Node(t, "n1"), other: f.Node(t, "n2"),
		fence: store.Fence{Lease: "controller", Epoch: 7},
	}
	p.epoch.Store(3)
	return p
}

func (p *pair) check(_ context.Context, f store.Fence) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f != p.fence {
		return store.ErrFenced
	}
	return nil
}

func (p *pair) admits(name string, _ [32]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.admit != nil {
		return p.admit(name)
	}
	return nil
}

// serve serves runtimes and returns the address.
func (p *pair) serve(t testing.TB, all ...runtime.Runtime) (*Server, string) {
	s := NewServer(Options{
		Runtimes: all, Check: p.check, Admit: p.admits, Logger: logger(t), Epoch: p.epoch.Load,
		Localize: func(l *runtime.Launch) error {
			l.Dir = cmp.Or(strings.TrimPrefix(l.Dir, l.Home), "/")
			return nil
		},
	})
	return s, clustertest.Serve(t, mtls.Server(func() *identity.Identity { return p.other }, p.admits), s)
}

// dial returns a function that connects to an address as a node.
func (p *pair) dial(as *identity.Identity, address func() string) func(context.Context) (net.Conn, error) {
	d := tls.Dialer{Config: mtls.Client(func() *identity.Identity { return as }, mtls.Peer{Name: "n2"})}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", address()) }
}

func (p *pair) connect(t testing.TB, address func() string) *Client {
	return p.connectWith(t, address, pingInterval)
}

func (p *pair) connectWith(t testing.TB, address func() string, pings time.Duration) *Client {
	return newClient(ClientOptions{
		Node: "n2", Dial: p.dial(p.controller, address), Logger: logger(t),
		Fence: func() store.Fence { return store.Fence{Lease: "controller", Epoch: 7} },
	}, pings)
}

func logger(testing.TB) *slog.Logger {
	w := io.Discard
	if os.Getenv("REMOTE_LOG") != "" {
		w = os.Stderr
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// far is a runtime of another node, with all that is behind it. Its logs are on this machine.
type far struct {
	*Runtime
	client *Client
	server *Server
	local  runtime.Runtime
	once   sync.Once
}

func (p *pair) far(t testing.TB, local runtime.Runtime) *far {
	s, address := p.serve(t, local)
	c := p.connect(t, func() string { return address })
	f := &far{Runtime: c.Runtime(local.Kind()), client: c, server: s, local: local}
	t.Cleanup(func() { f.Close() })
	return f
}

func (f *far) CheckDeadline(ctx context.Context) { f.local.(runtime.Expirer).CheckDeadline(ctx) }

func (f *far) Log(path string) (string, error) { return f.local.Log(path) }

func (f *far) Close() error {
	f.once.Do(func() {
		f.Runtime.Close()
		f.client.Close()
		f.server.Close()
		f.local.Close()
	})
	return nil
}

func openShim(t testing.TB, o shim.Options) runtime.Runtime {
	r, err := shim.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
