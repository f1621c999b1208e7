package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds a wait that takes so long only if the test fails.
const testTimeout = 20 * time.Second

// fastTimeouts are timeouts for servers that a test should not wait for.
func fastTimeouts() timeouts {
	p := defaultTimeouts()
	p.begin = 10 * time.Millisecond
	return p
}

// started is a server of a test.
type started struct {
	socket string
	stop   func() // returns when it has ended
}

// newServer returns a server that logs nothing, with the routes that d answers.
func newServer(d Access, p timeouts) *Server {
	s := NewServer(d, slog.New(slog.DiscardHandler))
	s.timeouts = p
	if c, ok := d.(interface {
		counted(context.Context, countRequest) iter.Seq2[counted, error]
		attachTo(context.Context, string, Viewer) error
	}); ok {
		counts.Handle(s, c.counted)
		HandleAttach(s, c.attachTo)
	}
	return s
}

// counts is a stream whose messages are numbered.
var counts = Stream[countRequest, counted]{
	Path: "/counts", ID: "counts", Summary: "s", Doc: "d", Returns: "r", Number: func(m counted) uint64 { return m.N },
	Read: func(number uint64, data []byte) (m counted, err error) {
		if err = json.Unmarshal(data, &m); err == nil && m.N != number {
			err = fmt.Errorf("message %d has number %d", m.N, number)
		}
		return m, err
	},
}

type countRequest struct {
	After  uint64   `json:"after,omitempty" default:"3" maximum:"1000000" doc:"Where to begin."`
	Follow bool     `json:"follow,omitempty" doc:"Wait."`
	Some   *uint64  `json:"some,omitempty" doc:"A number that may be missing."`
	Only   []string `json:"only,omitempty" doc:"Texts."`
	Last   *uint64  `json:"Last-Event-ID,omitempty" in:"header" doc:"The last one."`
}

type counted struct {
	N    uint64 `json:"n" doc:"Its number."`
	Text string `json:"text,omitempty" doc:"More."`
}

// follow yields the numbers after one, over any number of connections.
func follow(ctx context.Context, c *Client, after uint64) iter.Seq2[counted, error] {
	return func(yield func(counted, error) bool) {
		r := countRequest{After: after, Follow: true}
		for m, err := range counts.Follow(ctx, c, func() (countRequest, error) { return r, nil }) {
			if r.After = m.N; !yield(m, err) {
				return
			}
		}
	}
}

// start serves what d answers at the path until the test ends; "" makes one.
func start(t *testing.T, d Access, socket string, p timeouts) started {
	t.Helper()
	s := newServer(d, p)
	for _, path := range []string{"/status", "/nodes", "/explain"} {
		standIn(s, path)
	}
	standInActs(s, d)
	return startServer(t, s, socket)
}

// serving has a server serve until the test ends, and returns where.
func serving(t *testing.T, s *Server) (socket string) {
	t.Helper()
	return startServer(t, s, "").socket
}

func startServer(t *testing.T, s *Server, socket string) started {
	t.Helper()
	if socket == "" {
		socket = tempSocket(t)
	}
	l, err := endpoint.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(testTimeout):
			t.Error("the server does not end")
		}
	})
	t.Cleanup(stop)
	return started{socket, stop}
}

// dial returns a client that the test need not close.
func dial(t *testing.T, socket string) *Client {
	c := Dial(socket)
	c.timeouts.retry, c.timeouts.maxRetry = time.Millisecond, 5*time.Millisecond
	t.Cleanup(c.Close)
	return c
}

// tempSocket is a path that is short enough, whatever the test is called.
func tempSocket(t *testing.T) string {
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s", "daemon.sock")
}

func numbered(n uint64) counted { return counted{N: n} }

// reach asks a server for anything.
func reach(ctx context.Context, c *Client) error {
	return c.call(ctx, http.MethodGet, "/openapi.json", nil, nil, new(any))
}

// standIn registers a route of a feature that does nothing.
func standIn(s *Server, path string) {
	if path == "/explain" {
		type request struct {
			Path string `json:"path"`
		}
		Route[request, None]{Method: "GET", Path: path, For: People}.Handle(s,
			func(context.Context, token.Caller, request) (none None, err error) { return none, nil })
		return
	}
	type request struct {
		Path string `json:"path,omitempty"`
	}
	Route[request, []string]{Method: "GET", Path: path, For: People}.Handle(s,
		func(context.Context, token.Caller, request) ([]string, error) { return nil, nil })
}

// Routes by which people change something, as a feature has them.
var (
	actRoute  = Route[actRequest, None]{Method: "POST", Path: "/act", For: People}
	whoRoute  = Route[None, token.Caller]{Method: "GET", For: Agents}
	downRoute = Route[downRequest, None]{Method: "POST", Path: "/down", For: People}
)

type actRequest struct {
	Path   string `json:"path"`
	Action string `json:"action"`
}

type downRequest struct {
	Keep bool `json:"keep,omitempty"`
}

// standInActs registers routes that change something. What is not canned does nothing.
func standInActs(s *Server, d Access) {
	actRoute.Handle(s, func(ctx context.Context, _ token.Caller, req actRequest) (none None, err error) {
		if err := CheckPath(req.Path); err != nil {
			return none, err
		}
		if d, ok := d.(interface{ Act(context.Context) error }); ok {
			err = d.Act(ctx)
		}
		return none, err
	})
	whoRoute.Handle(s, func(_ context.Context, who token.Caller, _ None) (token.Caller, error) { return who, nil })
	downRoute.Handle(s, func(context.Context, token.Caller, downRequest) (none None, err error) { return none, nil })
}
