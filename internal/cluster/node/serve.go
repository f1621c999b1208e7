package node

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/httpserver"
)

// maxConns bounds the connections of other nodes, each of which keeps some for its clients.
const maxConns = 4096

// mounted is the API of the controller, while that is on this node.
type mounted struct {
	handler atomic.Pointer[http.Handler]
	epoch   *atomic.Uint64 // of the lease of the node
}

// ServeHTTP implements http.Handler.
func (m *mounted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := m.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	why := "this node is not, or no longer, it; another one takes over soon"
	if m.epoch.Load() == 0 {
		why = "this node has lost its lease, because the store does not answer, and waits for it"
	}
	api.RespondNoController(w, why)
}

// serve does what lasts as long as the process, until ctx ends.
func (n *Node) serve(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { n.view.Run(ctx) })
	wg.Go(func() { n.ended.Run(ctx) })
	wg.Go(func() { n.controller.run(ctx) })
	wg.Go(func() { n.follow(ctx) })
	config, handler := join.Endpoint(n.o.Current, n.view.Admit, http.HandlerFunc(n.serveNode), n.o.Join)
	server := httpserver.Server{
		Name: "other nodes", Handler: handler, Logger: n.o.Logger, Hosts: []string{"*"}, MaxConns: maxConns,
	}
	wg.Go(func() {
		if err := server.Serve(ctx, tls.NewListener(n.o.Listener, config)); err != nil {
			n.o.Logger.Error("other nodes cannot reach this one", "error", err)
		}
	})
	local := http.Server{Handler: &n.api, BaseContext: func(net.Listener) context.Context { return ctx }}
	wg.Go(func() { _ = local.Serve(n.pipe) })
	<-ctx.Done()
	_ = local.Close()
	wg.Wait()
}

// sharedPath is the prefix of the routes by which others use what is on this node.
const sharedPath = "/v1/node/"

// serveNode answers another node.
func (n *Node) serveNode(w http.ResponseWriter, r *http.Request) {
	h := n.shared.Load()
	switch {
	case !strings.HasPrefix(r.URL.Path, sharedPath):
		n.api.ServeHTTP(w, r)
	case h == nil:
		http.Error(w, "this node has no lease yet, and runs nothing", http.StatusServiceUnavailable)
	default:
		(*h).ServeHTTP(w, r)
	}
}

// Share has the node pass requests for what is on it to a handler: a remote.Server, and others below the same path.
func (n *Node) Share(h http.Handler) { n.shared.Store(&h) }

// Mount has the node pass requests for the controller to a handler; nil: it is not the controller.
func (n *Node) Mount(h http.Handler) {
	if h == nil {
		n.api.handler.Store(nil)
		return
	}
	n.api.handler.Store(&h)
}

// follow has the link reach the controller, once this node knows its processes.
func (n *Node) follow(ctx context.Context) {
	n.o.Link.Unavailable("this node has no lease yet")
	select {
	case <-n.readied:
	case <-ctx.Done():
	}
	var told Controller
	for {
		c, changed := n.controller.get()
		_, moved := n.view.All()
		peer, known := n.view.Get(c.Node)
		switch {
		case c.Node == "":
			n.o.Link.Unavailable("the fleet has had none yet")
		case c.Down:
			n.o.Link.Unavailable("the fleet was stopped")
		case c.Node == n.o.Name:
			n.o.Link.to(c.Node, n.pipe.Dial)
		case !known:
			n.o.Link.Unavailable("its node, " + c.Node + ", was removed")
		default:
			n.o.Link.to(c.Node, func(ctx context.Context) (net.Conn, error) { return n.dial(ctx, peer) })
		}
		if c.Node != n.o.Name && c.Node != "" && !c.Down && c != told {
			told = c
			n.standby("the controller is node " + c.Node)
		}
		for same := true; same; {
			select {
			case <-changed:
				same = false
			case <-moved:
				_, moved = n.view.All()
				now, _ := n.view.Get(c.Node)
				same = now.Address == peer.Address && string(now.Key) == string(peer.Key)
			case <-ctx.Done():
				n.o.Link.Unavailable("the daemon is stopping")
				return
			}
		}
	}
}
