package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
)

// Paths of the routes. A Server answers both.
const (
	Path       = "/v1/node/runtimes"
	attachPath = Path + "/attach"
)

// Options configure a Server. All are required.
type Options struct {
	Runtimes []runtime.Runtime // of this node, of different kinds
	// Check returns an error that wraps store.ErrFenced if a fence is not that of the controller. It is called for
	// each request that changes something, and concurrently.
	Check func(ctx context.Context, f store.Fence) error
	// Epoch returns that of the lease of this node, and 0 while it has none.
	Epoch func() uint64
	// Localize adapts a launch of another machine to this one. It fails if the agent cannot run here.
	Localize func(*runtime.Launch) error
	// Admit decides whether a node may connect, and go on.
	Admit  mtls.Admit
	Logger *slog.Logger
}

// Server serves the runtimes of this node to other nodes. It is an http.Handler for Path and what is below it, on a
// listener of package mtls.
type Server struct {
	o        Options
	runtimes map[string]runtime.Runtime // by kind
	handler  http.Handler
	ctx      context.Context // done when the server is closed
	cancel   context.CancelFunc
	running  sync.WaitGroup // connections, what they do except for starts, and the poller
	interval time.Duration  // between two checks whether a node may go on

	mu       sync.Mutex
	open     map[net.Conn]struct{} // upgraded connections
	conns    map[*conn]struct{}
	clients  map[string]*conn            // the last connection of each client
	highest  map[string]uint64           // accepted epochs, by lease
	held     map[message.Slot]*held      // sessions that have not ended
	starting map[message.Slot]*startings // starts in progress
	commands map[message.Slot][]*command // that run
}

// maxOpen bounds the connections, most of which are terminals.
const maxOpen = 512

// errServerClosed ends what is in progress.
var errServerClosed = errors.New("the node's daemon is ending")

// NewServer returns a Server. Close it before the runtimes.
func NewServer(o Options) *Server {
	s := &Server{
		o: o, runtimes: make(map[string]runtime.Runtime), open: make(map[net.Conn]struct{}),
		conns: make(map[*conn]struct{}), clients: make(map[string]*conn), highest: make(map[string]uint64),
		held: make(map[message.Slot]*held), starting: make(map[message.Slot]*startings),
		commands: make(map[message.Slot][]*command),
		interval: admitInterval,
	}
	for _, r := range o.Runtimes {
		s.runtimes[r.Kind()] = r
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.handler = mtls.Require(o.Admit, http.HandlerFunc(s.serve))
	s.running.Go(s.poll)
	return s
}

// Close closes all connections. Agents and starts go on: a start in progress ends with its runtime.
func (s *Server) Close() {
	s.mu.Lock()
	s.cancel()
	for c := range s.open {
		message.HangUp(c)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// serve upgrades the connection of a node that was admitted.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	var talk func(net.Conn, *http.Request, reader)
	switch r.URL.Path {
	case Path:
		talk = s.talk
	case attachPath:
		talk = s.attach
	default:
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost || r.Header.Get("Upgrade") != message.Protocol ||
		!strings.EqualFold(r.Header.Get("Connection"), "upgrade") {
		w.Header().Set("Upgrade", message.Protocol)
		http.Error(w, fmt.Sprintf("expected a POST with Connection: Upgrade and Upgrade: %s, not %.40q: "+
			"is the other node of another version?", message.Protocol, r.Header.Get("Upgrade")),
			http.StatusUpgradeRequired)
		return
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot be upgraded; expected HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	defer c.Close()
	if err := s.enter(c); err != nil {
		fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n%v\n", err)
		return
	}
	defer s.leave(c)
	_ = c.SetDeadline(time.Now().Add(helloTimeout)) // a closed connection fails below
	if _, err := fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		message.Protocol); err != nil {
		return
	}
	talk(c, r, buffered)
}

// enter adds an upgraded connection.
func (s *Server) enter(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return errServerClosed
	case len(s.open) >= maxOpen:
		return fmt.Errorf("the node has %d connections of other nodes, as many as it allows", maxOpen)
	}
	s.open[c] = struct{}{}
	s.running.Add(1)
	return nil
}

func (s *Server) leave(c net.Conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.running.Done()
}

const (
	// helloTimeout bounds the first message of a connection.
	helloTimeout = 10 * time.Second
	// admitInterval is the default of Server.interval.
	admitInterval = 5 * time.Second
)

// guard closes a connection when its node is not admitted any longer, or its certificate has expired: a new
// connection may have a better one.
func (s *Server) guard(ctx context.Context, c net.Conn, r *http.Request) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		peer, err := mtls.PeerOf(r.TLS)
		if err == nil {
			err = pki.CheckTime(r.TLS.VerifiedChains[0][0], time.Now())
		}
		if err == nil {
			err = s.o.Admit(peer.Name, peer.Key)
		}
		if err != nil {
			s.o.Logger.Warn("a node may no longer use the runtimes of this node", "node", peer.Name, "error", err)
			message.HangUp(c)
			return
		}
	}
}

// runtime returns the runtime of a kind.
func (s *Server) runtime(kind string) (runtime.Runtime, error) {
	if r := s.runtimes[kind]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("%w: the node has no runtime of the kind %.40q", runtime.ErrUnsupported, kind)
}

// check returns nil if a request comes from the controller. Its fence is remembered then, so that an older one is
// refused even if the store cannot be asked.
func (s *Server) check(ctx context.Context, f *store.Fence) error {
	if f == nil || *f == (store.Fence{}) {
		return fmt.Errorf("%w: the request has no fence", store.ErrFenced)
	}
	if err := s.isOlder(f); err != nil {
		return err
	}
	if err := s.o.Check(ctx, *f); err != nil {
		return fmt.Errorf("checking the controller's lease: %w", err)
	}
	if err := s.isOlder(f); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.highest[f.Lease] = max(f.Epoch, s.highest[f.Lease])
	return nil
}

// isOlder returns an error if a fence is older than another one that was accepted.
func (s *Server) isOlder(f *store.Fence) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if highest := s.highest[f.Lease]; f.Epoch < highest {
		return fmt.Errorf("%w: a controller with epoch %d has given orders to the node, and this one has epoch %d",
			store.ErrFenced, highest, f.Epoch)
	}
	return nil
}
