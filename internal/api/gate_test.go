package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/token"
)

// narrow is a server with few places, whose clients are of the agent that a test says.
type narrow struct {
	started
	t     *testing.T
	gate  *gate
	agent atomic.Pointer[token.Caller] // of connections from now on; nil: people
}

type narrowService struct {
	canned
	n *narrow
}

func (s narrowService) Owner(int) (*token.Caller, error) { return s.n.agent.Load(), nil }

func newNarrow(t *testing.T, r limits) *narrow {
	t.Helper()
	n := &narrow{t: t}
	forever := func(ctx context.Context, _ uint64, yield func(counted, error) bool) {
		if yield(numbered(1), nil) {
			<-ctx.Done()
		}
	}
	n.socket = tempSocket(t)
	l, err := endpoint.Listen(n.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := newServer(narrowService{canned{full: true, events: forever}, n}, fastTimeouts())
	standInActs(s, canned{})
	s.limits = r
	n.gate = newGate(l, s.access, r)
	go func() { ended <- s.serveBy(ctx, n.gate) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}))
	return n
}

// as says whose the connections are that are made from now on: an agent's if
// there is a path.
func (n *narrow) as(path string) *narrow {
	if path == "" {
		n.agent.Store(nil)
	} else {
		n.agent.Store(&token.Caller{Path: path, Incarnation: 1})
	}
	return n
}

// connect makes a connection that stays until the test ends.
func (n *narrow) connect() net.Conn {
	n.t.Helper()
	conn, err := net.Dial("unix", n.socket)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return conn
}

// idle makes a connection that has been answered and is kept open.
func (n *narrow) idle() {
	n.t.Helper()
	conn := n.connect()
	io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
}

// follow makes a connection that follows the events until the test ends, or says
// why it may not.
func (n *narrow) follow() error {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n.t.Cleanup(cancel)
	result := make(chan error, 1)
	c := dial(n.t, n.socket)
	go func() {
		for _, err := range follow(ctx, c, 0) {
			select {
			case result <- err:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case err := <-result:
		return err
	case <-time.After(testTimeout):
		n.t.Fatal("neither an event nor an error")
		return nil
	}
}

// served makes sure that a person is.
func (n *narrow) served() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), testTimeout)
	defer cancel()
	c := dial(n.t, n.as("").socket)
	defer c.Close()
	err := reach(ctx, c)
	_, err2 := actRoute.Call(ctx, c, actRequest{Path: "a"})
	if err := errors.Join(err, err2); err != nil {
		n.t.Fatal(err)
	}
}

// What is idle gives way, and what has said nothing yet, too.
func TestIdleGivesWay(t *testing.T) {
	for name, one := range map[string]func(*narrow){
		"idle":   (*narrow).idle,
		"silent": func(n *narrow) { n.connect() },
		"half":   func(n *narrow) { io.WriteString(n.connect(), "GET /v1/sta") },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNarrow(t, limitsFor(8))
			for range 30 {
				one(n)
			}
			n.served()
			n.as("a")
			for range 30 {
				one(n)
			}
			n.served()
		})
	}
}

// However many follow something, the other requests of people are answered.
func TestFollowersLeaveRoom(t *testing.T) {
	n := newNarrow(t, limitsFor(16))
	var refused error
	for range 20 {
		refused = errors.Join(refused, n.follow())
		n.served()
	}
	if !errors.Is(refused, ErrConflict) || !strings.Contains(refused.Error(), "14 streams") || strings.Count(refused.Error(), "\n") != 5 {
		t.Error(refused)
	}
}

// Agents that wait, of one or of many, leave room for people, also to follow something.
func TestAgentsLeaveRoom(t *testing.T) {
	r := limitsFor(32)
	n := newNarrow(t, r)
	count := func(who func(int) string) (open int, refused error) {
		for i := range 3 * r.maxConns {
			if err := n.as(who(i)).follow(); err != nil {
				refused = err
			} else {
				open++
			}
			n.served()
		}
		return open, refused
	}
	if open, refused := count(func(int) string { return "a" }); open != r.streams || !errors.Is(refused, ErrStopping) {
		t.Errorf("one agent has %d streams, want %d: %v", open, r.streams, refused)
	}
	open, refused := count(func(i int) string { return fmt.Sprint("b", i) })
	if open != r.forAgents()-r.streams || !errors.Is(refused, ErrStopping) {
		t.Errorf("%d agents have streams, want %d: %v", open, r.forAgents()-r.streams, refused)
	}
	if err := n.as("").follow(); err != nil {
		t.Error(err)
	}
	n.served()
}

// One agent has so many streams and no more, also where it has more connections.
func TestStreamsOfAnAgent(t *testing.T) {
	r := limitsFor(32)
	r.streams = 3
	n := newNarrow(t, r).as("a")
	var refused error
	for range 5 {
		refused = errors.Join(refused, n.follow())
	}
	if !errors.Is(refused, ErrConflict) || !strings.Contains(refused.Error(), "agent a") || strings.Count(refused.Error(), "\n") != 1 {
		t.Error(refused)
	}
	if err := n.as("b").follow(); err != nil {
		t.Error(err)
	}
}

// Places come back, whatever has ended a connection.
func TestPlacesComeBack(t *testing.T) {
	n := newNarrow(t, limitsFor(16))
	t.Run("all kinds", func(t *testing.T) {
		inner := &narrow{started: n.started, t: t, gate: n.gate}
		for _, who := range []string{"", "a", "b"} {
			n.as(who)
			inner.idle()
			inner.connect()
			if err := inner.follow(); err != nil {
				t.Error(err)
			}
		}
		inner.connect().Close()
	})
	g := n.gate
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		left := fmt.Sprint(len(g.conns), len(g.agents), len(g.streams), g.agentConns, g.held)
		g.mu.Unlock()
		if left == "0 0 0 0 0" {
			return
		}
		if time.Since(began) > testTimeout {
			t.Fatalf("left: %s", left)
		}
	}
}
