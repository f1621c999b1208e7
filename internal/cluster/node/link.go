package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
)

// Link reaches the controller of the fleet, on this node or another one. It is an http.RoundTripper that ignores the
// host of requests. The zero Link reaches none.
type Link struct {
	mu     sync.Mutex
	why    string // there is no controller, for people
	target *target
}

// target is a controller that can be reached.
type target struct {
	name      string // of its node
	transport *http.Transport
	ctx       context.Context // ends when the target is replaced
	cancel    context.CancelFunc
}

// Unavailable says why no controller can be reached for now.
func (l *Link) Unavailable(why string) { l.set(nil, why) }

// to has requests go to a node.
func (l *Link) to(name string, dial func(context.Context) (net.Conn, error)) {
	t := &target{name: name, transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, api.NoController(fmt.Sprintf("%v; if its node is lost, another one takes over soon", err))
			}
			return conn, nil
		},
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second, // less than that of the server
		DisableCompression:  true,
	}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	l.set(t, "")
}

func (l *Link) set(t *target, why string) {
	l.mu.Lock()
	old := l.target
	l.target, l.why = t, why
	l.mu.Unlock()
	if old != nil {
		old.cancel()
		old.transport.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper. A request to a controller that is replaced is given up.
func (l *Link) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	t, why := l.target, l.why
	l.mu.Unlock()
	if t == nil {
		if why == "" {
			why = "the daemon is starting"
		}
		return nil, api.NoController(why)
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(t.ctx, cancel)
	context.AfterFunc(r.Context(), func() { // when the answer was passed on
		stop()
		cancel()
	})
	resp, err := t.transport.RoundTrip(r.WithContext(ctx))
	if t.ctx.Err() == nil || r.Context().Err() != nil || errors.Is(err, api.ErrNoController) {
		return resp, err
	}
	if err == nil { // what a server answers to a request that is given up is no answer
		resp.Body.Close()
		err = t.ctx.Err()
	}
	return nil, fmt.Errorf("the controller was replaced: %w", err)
}

// Timeouts of connections between nodes. A node that is cut off must not make commands hang.
const (
	dialTimeout   = 5 * time.Second
	keepAlive     = 3 * time.Second // between two probes of a silent connection
	silentTimeout = 10 * time.Second
)

// Dial connects to another node, by its name.
func (n *Node) Dial(ctx context.Context, name string) (net.Conn, error) {
	peer, ok := n.view.Get(name)
	if !ok {
		return nil, fmt.Errorf("node %s: %w", name, registry.ErrUnknown)
	}
	return n.dial(ctx, peer)
}

func (n *Node) dial(ctx context.Context, peer registry.Node) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 3},
		Control:         limitSilence,
	}
	config := mtls.Client(n.o.Current, mtls.Peer{Name: peer.Name, Key: [32]byte(peer.Key)})
	conn, err := (&tls.Dialer{NetDialer: &d, Config: config}).DialContext(ctx, "tcp", peer.Address)
	if err != nil {
		return nil, fmt.Errorf("node %s (%s): %w", peer.Name, peer.Address, err)
	}
	return conn, nil
}
