package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/remote"
	"github.com/coppice-dev/coppice/internal/health/programs"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store"
)

// peers has the runtimes of the other nodes, while this one is the controller.
type peers struct {
	node   *node.Node
	fence  store.Fence // of the lease of the controller
	logger *slog.Logger

	mu       sync.Mutex
	clients  map[string]*remote.Client             // by node
	runtimes map[string]map[string]runtime.Runtime // by node and kind
	calls    map[string]*far.Client                // by node
	ways     map[string]*http.Transport            // by node
}

func newPeers(n *node.Node, fence store.Fence, logger *slog.Logger) *peers {
	return &peers{node: n, fence: fence, logger: logger, clients: make(map[string]*remote.Client),
		runtimes: make(map[string]map[string]runtime.Runtime), calls: make(map[string]*far.Client),
		ways: make(map[string]*http.Transport)}
}

// runtime returns a runtime of another node.
func (p *peers) runtime(name, kind string) runtime.Runtime {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients[name] == nil {
		p.clients[name] = remote.NewClient(remote.ClientOptions{
			Node: name, Fence: func() store.Fence { return p.fence }, Logger: p.logger,
			Dial: func(ctx context.Context) (net.Conn, error) { return p.node.Dial(ctx, name) },
		})
		p.runtimes[name] = make(map[string]runtime.Runtime)
	}
	if p.runtimes[name][kind] == nil {
		p.runtimes[name][kind] = p.clients[name].Runtime(kind)
	}
	return p.runtimes[name][kind]
}

// callsOn returns what follows the calls of command lines on another node.
func (p *peers) callsOn(name string) *far.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[name] == nil {
		p.calls[name] = far.NewClient(far.ClientOptions{Node: name, Logger: p.logger, Transport: p.way(name)})
	}
	return p.calls[name]
}

// transport reaches what another node answers to nodes.
func (p *peers) transport(name string) http.RoundTripper {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.way(name)
}

// way is transport. It needs mu.
func (p *peers) way(name string) *http.Transport {
	if p.ways[name] == nil {
		p.ways[name] = &http.Transport{
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return p.node.Dial(ctx, name) },
			IdleConnTimeout: 30 * time.Second, // less than that of the server
		}
	}
	return p.ways[name]
}

// close closes the connections. The agents go on.
func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.Close()
	}
	for _, c := range p.calls {
		c.Close()
	}
	for _, w := range p.ways {
		w.CloseIdleConnections()
	}
}

// share lets the controller use the runtimes of this node, and read what its command lines report, until end is called.
func (m *machine) share(n *node.Node, db store.Store) (end func()) {
	s := remote.NewServer(remote.Options{
		Runtimes: m.runtimes, Admit: n.View().Admit, Epoch: n.Epoch, Localize: m.localize, Logger: m.Logger,
		Check: func(ctx context.Context, f store.Fence) error {
			if f.Lease != node.ControllerLease {
				return fmt.Errorf("%w: only the controller may do that", store.ErrFenced)
			}
			_, err := db.Apply(ctx, f, nil, nil)
			return err
		},
	})
	calls := far.NewServer(m.here)
	routes := http.NewServeMux()
	routes.Handle(remote.Path, s)
	routes.Handle(remote.Path+"/", s)
	routes.Handle(far.Path, mtls.Require(n.View().Admit, calls))
	routes.Handle(programs.Path, mtls.Require(n.View().Admit, http.HandlerFunc(programs.Serve)))
	n.Share(routes)
	return func() {
		calls.Close()
		s.Close()
	}
}

// here returns the path on this machine of a file that a controller names, whose project is in the directory home.
func (m *machine) here(home, path string) string {
	if home == "" {
		return path
	}
	if rel, err := filepath.Rel(home, path); err == nil && filepath.IsLocal(rel) {
		return filepath.Join(m.project.Dir, rel)
	}
	return path
}

// localize adapts a launch of the controller to this machine, on which the project may be in another directory.
func (m *machine) localize(l *runtime.Launch) error {
	here := func(path string) string { return m.here(l.Home, path) }
	all := func(paths []string) []string {
		paths = slices.Clone(paths)
		for i, path := range paths {
			name, optional := landlock.Optional(path)
			if paths[i] = here(name); optional {
				paths[i] = "-" + paths[i]
			}
		}
		return paths
	}
	l.Dir = here(l.Dir)
	if l.Stdin != "" {
		l.Stdin = here(l.Stdin)
	}
	if p := l.Paths; p != nil {
		l.Paths = &landlock.Paths{ReadWrite: all(p.ReadWrite), ReadOnly: all(p.ReadOnly), OwnSignals: p.OwnSignals}
	}
	socket := m.socket
	if l.User != nil {
		var err error
		if socket, err = m.listener.Admit(l.User.UID); err != nil {
			return fmt.Errorf("make a socket for user %s: %w", l.User.Name, err)
		}
	}
	for i, kv := range l.Env {
		if strings.HasPrefix(kv, proc.EnvSocket+"=") {
			l.Env[i] = proc.EnvSocket + "=" + socket
		}
	}
	l.Env, l.Inherited = proc.Move(l.Env, l.Inherited), nil
	l.Env = otlp.Localize(runner.Localize(l.Env, here), m.exports.address())
	return nil
}
