package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/token"
)

// limits is how many connections a server takes. Agents get the places without two
// reserves: one is for what people follow, and one for their other requests, so
// that neither agents nor followers keep a person from answering or stopping.
type limits struct {
	maxConns int // connections there may be
	reserve  int // places of each of the two reserves
	agent    int // connections of one agent
	streams  int // streams and waits of one agent
}

// defaultLimits leaves the descriptors alone that the daemon needs for its agents.
func defaultLimits() limits {
	maximum := uint64(4096)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		maximum = max(8, min(maximum, limit.Cur/4))
	}
	return limitsFor(int(maximum))
}

func limitsFor(maxConns int) limits {
	r := limits{maxConns: maxConns, reserve: max(1, maxConns/8)}
	r.agent = min(256, max(1, r.forAgents()/2))
	r.streams = min(128, r.agent)
	return r
}

func (r limits) forAgents() int { return r.maxConns - 2*r.reserve }

// gate lets connections in as long as there is room. What is idle gives way.
type gate struct {
	net.Listener
	access Access
	limits limits
	begin  sync.Once
	ready  chan *connection
	done   chan struct{} // closed when no more connections are let in
	err    error         // why; once done is closed

	mu         sync.Mutex
	changed    *sync.Cond // a place is free, a connection is idle, or the gate is closed
	conns      map[*connection]struct{}
	agents     map[string]int // connections of agents, by path
	streams    map[string]int // streams and waits of agents, by path
	agentConns int            // connections of agents
	held       int            // those, and the streams and waits of others
}

// acceptors is how many connections are looked at at a time. Finding out whose one
// is takes some files of /proc, and between any two of them a busy daemon may do other work.
const acceptors = 16

// connection is one that was let in.
type connection struct {
	net.Conn
	gate      *gate
	from      origin
	idleSince time.Time // since when no request is being answered; zero while one is. Needs the gate's mu
	// refused says why its agent gets no place: its request is answered with that.
	refused busy
}

// busy is the error of a request for which there is no place.
type busy string

func (b busy) Error() string { return string(b) }
func (b busy) Unwrap() error { return ErrStopping }

// minIdle is how long a connection may say nothing before it gives way: a request
// may be on its way.
const minIdle = 100 * time.Millisecond

func newGate(l net.Listener, a Access, r limits) *gate {
	g := &gate{
		Listener: l, access: a, limits: r,
		ready: make(chan *connection), done: make(chan struct{}),
		conns: make(map[*connection]struct{}), agents: make(map[string]int), streams: make(map[string]int),
	}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// Accept waits for the next connection that is let in.
func (g *gate) Accept() (net.Conn, error) {
	g.begin.Do(func() {
		for range acceptors {
			go g.acceptLoop()
		}
	})
	select {
	case c := <-g.ready:
		return c, nil
	case <-g.done:
		return nil, g.err
	}
}

// acceptLoop lets connections in until the gate is closed, or its listener.
func (g *gate) acceptLoop() {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			g.end(err)
			return
		}
		c := &connection{Conn: conn, gate: g, from: originOf(conn, g.access)}
		if err := g.admit(c); err != nil {
			conn.Close()
			return
		}
		select {
		case g.ready <- c:
		case <-g.done:
			c.Close()
			return
		}
	}
}

// end stops letting connections in.
func (g *gate) end(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed() {
		return
	}
	g.err = err
	close(g.done)
	g.changed.Broadcast()
}

func (g *gate) closed() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// Close ends the gate with its listener.
func (g *gate) Close() error {
	g.end(net.ErrClosed)
	return g.Listener.Close()
}

// admit waits for a place for a connection. One of an agent that may not have
// another place gets one for as long as it takes to say so.
func (g *gate) admit(c *connection) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if agent := c.from.agent; agent != nil {
		c.refused = g.refuse(agent)
	}
	for len(g.conns) >= g.limits.maxConns && !g.evict(func(*connection) bool { return true }) {
		if g.closed() {
			return net.ErrClosed
		}
		wake := time.AfterFunc(minIdle, g.changed.Broadcast)
		g.changed.Wait()
		wake.Stop()
	}
	g.conns[c], c.idleSince = struct{}{}, time.Now()
	if c.ofAgent() {
		g.agents[c.from.agent.Path]++
		g.agentConns++
		g.held++
	}
	return nil
}

// refuse says why an agent gets no place; empty if it gets one. Needs mu.
func (g *gate) refuse(agent *token.Caller) busy {
	same := func(c *connection) bool { return c.ofAgent() && c.from.agent.Path == agent.Path }
	switch {
	case g.agents[agent.Path] >= g.limits.agent && !g.evict(same):
		return busy(fmt.Sprintf("%s has %d connections to the daemon, the most that one may have; close some first",
			agent.Name(), g.limits.agent))
	case g.agentConns >= g.limits.forAgents() && !g.evict((*connection).ofAgent):
		return busy(fmt.Sprintf(
			"agents have %d connections to the daemon, the most that they may have; try again later",
			g.agentConns))
	}
	return ""
}

// ofAgent reports whether a connection has one of the places of agents.
func (c *connection) ofAgent() bool { return c.from.agent != nil && c.refused == "" }

// evict closes the connection that has been idle for longest among some, and
// reports whether there was one that is not fresh. Needs mu.
func (g *gate) evict(which func(*connection) bool) bool {
	var oldest *connection
	before := time.Now().Add(-minIdle)
	for c := range g.conns {
		if !c.idleSince.IsZero() && c.idleSince.Before(before) && which(c) && (oldest == nil || c.idleSince.Before(oldest.idleSince)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	g.remove(oldest)
	oldest.Conn.Close()
	return true
}

// remove gives the place of a connection back. Needs mu.
func (g *gate) remove(c *connection) {
	if _, in := g.conns[c]; !in {
		return
	}
	delete(g.conns, c)
	if c.ofAgent() {
		count(g.agents, c.from.agent.Path, -1)
		g.agentConns--
		g.held--
	}
	g.changed.Broadcast()
}

func count(m map[string]int, path string, n int) {
	if m[path] += n; m[path] == 0 {
		delete(m, path)
	}
}

// state follows what http.Server does with a connection.
func (g *gate) state(conn net.Conn, s http.ConnState) {
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch s {
	case http.StateActive, http.StateHijacked:
		c.idleSince = time.Time{}
	case http.StateIdle:
		c.idleSince = time.Now()
		g.changed.Broadcast()
	}
}

// reserveStream takes a place for a request that stays, of an agent if there is a path.
func (g *gate) reserveStream(c *connection, path string) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case path != "" && g.streams[path] >= g.limits.streams:
		return nil, fmt.Errorf("%w: agent %s has %d streams and waits, the most that one may have; end one first",
			ErrConflict, path, g.limits.streams)
	case c.from.agent == nil && g.held >= g.limits.maxConns-g.limits.reserve:
		return nil, fmt.Errorf("%w: there are %d streams and waits, the most that there may be; end one first",
			ErrConflict, g.held)
	}
	if path != "" {
		g.streams[path]++
	}
	if c.from.agent == nil {
		g.held++
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if path != "" {
			count(g.streams, path, -1)
		}
		if c.from.agent == nil {
			g.held--
		}
	}), nil
}

// Close gives the place back.
func (c *connection) Close() error {
	c.gate.mu.Lock()
	c.gate.remove(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// origin is zero where a handler is served without a gate.
func (c *connection) origin() origin {
	if c == nil {
		return origin{}
	}
	return c.from
}

type connectionKey struct{}

// withConnection lets the requests of a connection find it.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// connection is that of the request; nil where a handler is served without a gate.
func (c *call) connection() *connection {
	conn, _ := c.r.Context().Value(connectionKey{}).(*connection)
	return conn
}

// reserveStream takes a place for a request that stays.
func (c *call) reserveStream() (release func(), err error) {
	conn := c.connection()
	if conn == nil {
		return func() {}, nil
	}
	path := c.caller.Path
	if conn.from.agent != nil && path == "" {
		path = conn.from.agent.Path
	}
	return conn.gate.reserveStream(conn, path)
}
