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

// room is how many connections a server takes. Agents get the places without two
// reserves: one is for what people follow, and one for their other requests, so
// that neither agents nor followers keep a person from answering or stopping.
type room struct {
	places  int // connections there may be
	reserve int // places of each of the two reserves
	agent   int // connections of one agent
	streams int // streams and waits of one agent
}

// defaultRoom leaves the descriptors alone that the daemon needs for its agents.
func defaultRoom() room {
	most := uint64(4096)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		most = max(8, min(most, limit.Cur/4))
	}
	return roomOf(int(most))
}

func roomOf(places int) room {
	r := room{places: places, reserve: max(1, places/8)}
	r.agent = min(256, max(1, r.forAgents()/2))
	r.streams = min(128, r.agent)
	return r
}

func (r room) forAgents() int { return r.places - 2*r.reserve }

// gate lets connections in as long as there is room. What is idle gives way.
type gate struct {
	net.Listener
	access Access
	room   room
	begin  sync.Once
	ready  chan *connection
	over   chan struct{} // closed when no more connections are let in
	err    error         // why; once over is closed

	mu      sync.Mutex
	changed *sync.Cond // a place is free, a connection is idle, or the gate is closed
	conns   map[*connection]struct{}
	agents  map[string]int // connections of agents, by path
	streams map[string]int // streams and waits of agents, by path
	guests  int            // connections of agents
	held    int            // those, and the streams and waits of others
}

// lookers is how many connections are looked at at a time. Finding out whose one
// is takes some files of /proc, and between any two of them a busy daemon may do other work.
const lookers = 16

// connection is one that was let in.
type connection struct {
	net.Conn
	gate  *gate
	from  origin
	quiet time.Time // since when no request is being answered; zero while one is. Needs the gate's mu
	// refused says why its agent gets no place: its request is answered with that.
	refused busy
}

// busy is the error of a request for which there is no place.
type busy string

func (b busy) Error() string { return string(b) }
func (b busy) Unwrap() error { return ErrStopping }

// fresh is how long a connection may say nothing before it gives way: a request
// may be on its way.
const fresh = 100 * time.Millisecond

func newGate(l net.Listener, a Access, r room) *gate {
	g := &gate{
		Listener: l, access: a, room: r,
		ready: make(chan *connection), over: make(chan struct{}),
		conns: make(map[*connection]struct{}), agents: make(map[string]int), streams: make(map[string]int),
	}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// Accept waits for the next connection that is let in.
func (g *gate) Accept() (net.Conn, error) {
	g.begin.Do(func() {
		for range lookers {
			go g.look()
		}
	})
	select {
	case c := <-g.ready:
		return c, nil
	case <-g.over:
		return nil, g.err
	}
}

// look lets connections in until the gate is closed, or its listener.
func (g *gate) look() {
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
		case <-g.over:
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
	close(g.over)
	g.changed.Broadcast()
}

func (g *gate) closed() bool {
	select {
	case <-g.over:
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
	for len(g.conns) >= g.room.places && !g.shed(func(*connection) bool { return true }) {
		if g.closed() {
			return net.ErrClosed
		}
		wake := time.AfterFunc(fresh, g.changed.Broadcast)
		g.changed.Wait()
		wake.Stop()
	}
	g.conns[c], c.quiet = struct{}{}, time.Now()
	if c.guest() {
		g.agents[c.from.agent.Path]++
		g.guests++
		g.held++
	}
	return nil
}

// refuse says why an agent gets no place; empty if it gets one. Needs mu.
func (g *gate) refuse(agent *token.Caller) busy {
	same := func(c *connection) bool { return c.guest() && c.from.agent.Path == agent.Path }
	switch {
	case g.agents[agent.Path] >= g.room.agent && !g.shed(same):
		return busy(fmt.Sprintf("%s has %d connections to the daemon, the most that one may have; close some first",
			agent.Name(), g.room.agent))
	case g.guests >= g.room.forAgents() && !g.shed((*connection).guest):
		return busy(fmt.Sprintf(
			"agents have %d connections to the daemon, the most that they may have; try again later",
			g.guests))
	}
	return ""
}

// guest reports whether a connection has one of the places of agents.
func (c *connection) guest() bool { return c.from.agent != nil && c.refused == "" }

// shed closes the connection that has been idle for longest among some, and
// reports whether there was one that is not fresh. Needs mu.
func (g *gate) shed(which func(*connection) bool) bool {
	var oldest *connection
	before := time.Now().Add(-fresh)
	for c := range g.conns {
		if !c.quiet.IsZero() && c.quiet.Before(before) && which(c) && (oldest == nil || c.quiet.Before(oldest.quiet)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	g.leave(oldest)
	oldest.Conn.Close()
	return true
}

// leave gives the place of a connection back. Needs mu.
func (g *gate) leave(c *connection) {
	if _, in := g.conns[c]; !in {
		return
	}
	delete(g.conns, c)
	if c.guest() {
		count(g.agents, c.from.agent.Path, -1)
		g.guests--
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
		c.quiet = time.Time{}
	case http.StateIdle:
		c.quiet = time.Now()
		g.changed.Broadcast()
	}
}

// hold takes a place for a request that stays, of an agent if there is a path.
func (g *gate) hold(c *connection, path string) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case path != "" && g.streams[path] >= g.room.streams:
		return nil, fmt.Errorf("%w: agent %s has %d streams and waits, the most that one may have; end one first",
			ErrConflict, path, g.room.streams)
	case c.from.agent == nil && g.held >= g.room.places-g.room.reserve:
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
	c.gate.leave(c)
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

// remember lets the requests of a connection find it.
func remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// connection is that of the request; nil where a handler is served without a gate.
func (c *call) connection() *connection {
	conn, _ := c.r.Context().Value(connectionKey{}).(*connection)
	return conn
}

// holds takes a place for a request that stays.
func (c *call) holds() (release func(), err error) {
	conn := c.connection()
	if conn == nil {
		return func() {}, nil
	}
	path := c.caller.Path
	if conn.from.agent != nil && path == "" {
		path = conn.from.agent.Path
	}
	return conn.gate.hold(conn, path)
}
