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

// limits bound the connections of a server. Agents may use all connections except two reserves.
// One reserve is for streams of people, and one for their other requests, so neither agents nor
// streams keep a person from answering or stopping.
type limits struct {
	maxConns int // total connections
	reserve  int // connections in each of the two reserves
	agent    int // connections of one agent
	streams  int // streams and waits of one agent
}

// defaultLimits leaves enough file descriptors for the agents of the daemon.
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

// gate admits connections within limits. An idle connection gives way to a new one.
type gate struct {
	net.Listener
	processes Processes
	limits    limits
	begin     sync.Once
	ready     chan *connection
	done      chan struct{} // closed when no more connections are admitted
	err       error         // the reason, once done is closed

	mu         sync.Mutex
	changed    *sync.Cond // a connection ended or became idle, or the gate was closed
	conns      map[*connection]struct{}
	agents     map[string]int // connections of agents, by path
	streams    map[string]int // streams and waits of agents, by path
	agentConns int            // connections of agents
	held       int            // those, and the streams and waits of people
}

// acceptors is the number of connections that are examined concurrently. Finding the owner of one
// reads several files of /proc, and a busy daemon may do other work in between.
const acceptors = 16

// connection is an admitted connection.
type connection struct {
	net.Conn
	gate      *gate
	from      origin
	idleSince time.Time // zero while a request is being answered. Needs gate.mu
	// refused is the answer to its request if its agent has too many connections.
	refused busy
}

// busy is the error of a request that exceeds the limit of connections.
type busy string

func (b busy) Error() string { return string(b) }
func (b busy) Unwrap() error { return ErrStopping }

// minIdle is the idle time before a connection gives way, since a request may be on its way.
const minIdle = 100 * time.Millisecond

func newGate(l net.Listener, p Processes, r limits) *gate {
	g := &gate{
		Listener: l, processes: p, limits: r,
		ready: make(chan *connection), done: make(chan struct{}),
		conns: make(map[*connection]struct{}), agents: make(map[string]int), streams: make(map[string]int),
	}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// Accept waits for the next admitted connection.
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

// acceptLoop admits connections until the gate or its listener is closed.
func (g *gate) acceptLoop() {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			g.end(err)
			return
		}
		c := &connection{Conn: conn, gate: g, from: originOf(conn, g.processes)}
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

// end stops admitting connections.
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

// Close closes the gate and its listener.
func (g *gate) Close() error {
	g.end(net.ErrClosed)
	return g.Listener.Close()
}

// admit waits for room for a connection. A connection of an agent that has too many is admitted
// only to be refused.
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

// refuse returns the reason why an agent gets no further connection, or "". Needs mu.
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

// ofAgent reports whether a connection counts against the limit of agents.
func (c *connection) ofAgent() bool { return c.from.agent != nil && c.refused == "" }

// evict closes the connection that has been idle for longest among those that match, and reports
// whether there was one. Needs mu.
func (g *gate) evict(which func(*connection) bool) bool {
	var oldest *connection
	before := time.Now().Add(-minIdle)
	for c := range g.conns {
		idle := !c.idleSince.IsZero() && c.idleSince.Before(before)
		if idle && which(c) && (oldest == nil || c.idleSince.Before(oldest.idleSince)) {
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

// state follows the state of a connection of http.Server.
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

// reserveStream reserves a place for a stream or a wait, for an agent if path is not empty.
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

// Close closes the connection and gives its place back.
func (c *connection) Close() error {
	c.gate.mu.Lock()
	c.gate.remove(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// origin returns the origin of a connection, which is zero for a handler without a gate.
func (c *connection) origin() origin {
	if c == nil {
		return origin{}
	}
	return c.from
}

type connectionKey struct{}

// withConnection adds a connection to the context of its requests.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// connection returns the connection of the request, or nil for a handler without a gate.
func (c *call) connection() *connection {
	conn, _ := c.r.Context().Value(connectionKey{}).(*connection)
	return conn
}

// reserveStream reserves a place for a request that is a stream or a wait.
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
