package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/api/pipe"
	"github.com/coppice-dev/coppice/internal/token"
)

// fleet is a Front with a controller that can be replaced.
type fleet struct {
	t      *testing.T
	socket string

	handler atomic.Pointer[http.Handler] // of the controller; nil if there is none
	refused atomic.Int64                 // requests that have found none
}

// localAccess is the Access of the node of a Front.
type localAccess struct {
	Access
	processes
}

func (a localAccess) Owner(pid int) (*token.Caller, error) { return a.processes.Owner(pid) }
func (a localAccess) RunOf(pid int) string                 { return a.processes.RunOf(pid) }

// processes are those of the node of the Front.
type processes struct {
	owner func(pid int) (*token.Caller, error)
	run   string
}

func (p processes) Owner(pid int) (*token.Caller, error) { return p.owner(pid) }
func (p processes) RunOf(int) string                     { return p.run }

func ofPeople(int) (*token.Caller, error) { return nil, nil }

func newFleet(t *testing.T, p processes) *fleet {
	t.Helper()
	f := &fleet{t: t, socket: tempSocket(t)}
	remote := pipe.Listen()
	node := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := f.handler.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		f.refused.Add(1)
		RespondNoController(w, "in the test")
	})}
	go node.Serve(remote)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return remote.Dial(ctx)
	}}
	local := NewServer(canned{}, slog.New(slog.DiscardHandler))
	Route[None, string]{Method: "POST", Path: "/here", For: People}.Handle(local,
		func(context.Context, token.Caller, None) (string, error) { return "this node", nil })
	local.access = localAccess{canned{}, p}
	front := NewFront(p, transport, slog.New(slog.DiscardHandler))
	front.Answer(local)
	l, err := endpoint.Listen(f.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- front.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		node.Close()
	})
	return f
}

// elect has a server answer as the controller, until step down is called with what comes next.
func (f *fleet) elect(s *Server) (stepDown func(cause error)) {
	f.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	mounted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.ServeForwarded(ctx, func(h http.Handler) {
			if h == nil {
				f.handler.Store(nil)
				return
			}
			f.handler.Store(&h)
			close(mounted)
		})
	}()
	<-mounted
	var once sync.Once
	end := func(cause error) {
		once.Do(func() {
			cancel(cause)
			select {
			case <-ended:
			case <-time.After(testTimeout):
				f.t.Error("the server does not end")
			}
		})
	}
	f.t.Cleanup(func() { end(nil) })
	return end
}

// told is an Access that remembers who was refused.
type told struct {
	canned
	mu     sync.Mutex
	denied []token.Caller
	order  string // of the last act
}

func (d *told) Denied(who token.Caller, _ int, _ string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denied = append(d.denied, who)
}

func (d *told) Act(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = OrderOf(ctx)
	return nil
}

// The origin that the node has found counts at the controller, whatever the client says.
func TestFrontOrigin(t *testing.T) {
	agent := &token.Caller{Path: "app/a"}
	for _, tt := range []struct {
		name    string
		p       processes
		want    string // part of the refusal; "" if it is allowed
		order   string
		refused string // path of the agent that is on record
	}{
		{name: "a person", p: processes{owner: ofPeople}},
		{name: "an order", p: processes{owner: ofPeople, run: "nightly"}, order: "nightly"},
		{name: "an agent", p: processes{owner: func(int) (*token.Caller, error) { return agent, nil }},
			want: "only people can start, stop", refused: "app/a"},
		{name: "an agent without a name", p: processes{owner: func(int) (*token.Caller, error) { return &token.Caller{}, nil }},
			want: "only people can start, stop", refused: ""},
		{name: "a process that cannot be seen", p: processes{owner: func(int) (*token.Caller, error) { return nil, errors.New("gone") }},
			want: "ended before it was known whose it is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tt.p)
			d := &told{canned: canned{full: true}}
			s := newServer(d, fastTimeouts())
			standInActs(s, d)
			f.elect(s)
			c := dial(t, f.socket)
			for _, forged := range []string{"", `{}`, `{"order":"mine"}`, `{"agent":false,"pid":1}`} {
				req, err := c.request(t.Context(), http.MethodPost, "/act", nil, actRequest{Path: "app/b", Action: "stop"})
				if err != nil {
					t.Fatal(err)
				}
				if forged != "" {
					req.Header.Set(originHeader, forged)
					req.Header.Set("Connection", originHeader) // which has proxies drop that
				}
				resp, err := c.do(req)
				if err == nil {
					resp.Body.Close()
				}
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("forged %s: %v", forged, err)
				case tt.want != "" && (!errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("forged %s: %v, want %q", forged, err, tt.want)
				case d.order != tt.order:
					t.Errorf("forged %s: it comes from order %q, want %q", forged, d.order, tt.order)
				}
			}
			if tt.refused != "" && (len(d.denied) != 4 || d.denied[0].Path != tt.refused) {
				t.Errorf("on record: %v", d.denied)
			}
		})
	}
}

// An agent acts as itself through the node of another controller, and as no other agent.
func TestFrontAgent(t *testing.T) {
	var owner atomic.Pointer[token.Caller]
	owner.Store(&token.Caller{Path: "app/a"})
	f := newFleet(t, processes{owner: func(int) (*token.Caller, error) { return owner.Load(), nil }})
	s := newServer(canned{full: true}, fastTimeouts())
	standInActs(s, canned{})
	f.elect(s)
	c := DialAgent(f.socket, "good")
	defer c.Close()
	if who, err := whoRoute.Call(t.Context(), c, None{}); err != nil || who.Path != "app/a" || who.Incarnation != 1 {
		t.Error(who, err)
	}
	owner.Store(&token.Caller{Path: "app/thief"})
	other := DialAgent(f.socket, "good")
	defer other.Close()
	if _, err := whoRoute.Call(t.Context(), other, None{}); !errors.Is(err, ErrUnauthorized) ||
		!strings.Contains(err.Error(), "from agent app/thief") {
		t.Error(err)
	}
}

// A stream goes on with the next controller, and ends when the fleet is stopped.
func TestFrontFollow(t *testing.T) {
	f := newFleet(t, processes{owner: ofPeople})
	server := func() *Server {
		return newServer(canned{full: true, events: func(ctx context.Context, after uint64, yield func(counted, error) bool) {
			if yield(numbered(after+1), nil) {
				<-ctx.Done()
				yield(counted{}, ctx.Err())
			}
		}}, fastTimeouts())
	}
	next := make(chan func(error), 1)
	var got []uint64
	stepDown := f.elect(server())
	for m, err := range follow(t.Context(), dial(t, f.socket), 0) {
		if err != nil {
			if !errors.Is(err, ErrStopping) || errors.Is(err, ErrNoController) || len(got) != 3 {
				t.Errorf("it ended with %v after %v", err, got)
			}
			return
		}
		switch got = append(got, m.N); m.N {
		case 1: // it is replaced at once
			stepDown(ErrNoController)
			stepDown = f.elect(server())
		case 2: // there is none for a while
			stepDown(NoController("it was lost"))
			f.refused.Store(0)
			go func() {
				for f.refused.Load() < 3 {
					runtime.Gosched()
				}
				next <- f.elect(server())
			}()
		case 3:
			stepDown = <-next
			stepDown(ErrStopping)
		}
	}
	t.Errorf("it ended after %v", got)
}

// Without a controller a request is refused, with the reason; nothing was done.
func TestFrontNoController(t *testing.T) {
	f := newFleet(t, processes{owner: ofPeople})
	c := dial(t, f.socket)
	for _, err := range []error{
		reach(t.Context(), c),
		func() error { _, err := actRoute.Call(t.Context(), c, actRequest{Path: "a"}); return err }(),
		func() error { _, err := follow1(t, c); return err }(),
	} {
		if !errors.Is(err, ErrNoController) || !errors.Is(err, ErrStopping) || !strings.Contains(err.Error(), "in the test") {
			t.Error(err)
		}
	}
}

func follow1(t *testing.T, c *Client) (counted, error) {
	for m, err := range counts.Open(t.Context(), c, countRequest{}) {
		return m, err
	}
	return counted{}, errors.New("nothing")
}

// Some routes are those of the node itself, also without a controller, and for people alone as all others.
func TestFrontLocal(t *testing.T) {
	here := Route[None, string]{Method: "POST", Path: "/here", For: People}
	for _, agent := range []*token.Caller{nil, {Path: "app/a"}} {
		f := newFleet(t, processes{owner: func(int) (*token.Caller, error) { return agent, nil }})
		answer, err := here.Call(t.Context(), dial(t, f.socket), None{})
		if agent == nil && (err != nil || answer != "this node") || agent != nil && !errors.Is(err, ErrUnauthorized) {
			t.Errorf("for %v: %q, %v", agent, answer, err)
		}
		if err := reach(t.Context(), dial(t, f.socket)); !errors.Is(err, ErrNoController) {
			t.Errorf("the description of the API is that of the controller: %v", err)
		}
	}
}

// A request whose answer is cut off may have been carried out, and says so.
func TestFrontLost(t *testing.T) {
	f := newFleet(t, processes{owner: ofPeople})
	cut := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	f.handler.Store(&cut)
	_, err := actRoute.Call(t.Context(), dial(t, f.socket), actRequest{Path: "a"})
	if !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

// A terminal works through a node.
func TestFrontAttach(t *testing.T) {
	f := newFleet(t, processes{owner: ofPeople})
	f.elect(newServer(canned{attach: echo}, fastTimeouts()))
	var got bytes.Buffer
	sizes := make(chan [2]uint16, 1)
	sizes <- [2]uint16{24, 80}
	in, out := io.Pipe()
	go func() {
		io.WriteString(out, "hello")
		out.Close()
	}()
	seen := &waiter{w: &got, until: "[24x80]", seen: make(chan struct{})}
	err := Attach(t.Context(), dial(t, f.socket), "app", Viewer{Input: &gated{in, seen.seen}, Output: seen, Sizes: sizes})
	if err != nil || got.String() != "[24x80]hello" {
		t.Errorf("%q, %v", got.String(), err)
	}
}

// waiter notes that a text was written.
type waiter struct {
	w     *bytes.Buffer
	until string
	seen  chan struct{}
}

func (w *waiter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if w.w.String() == w.until {
		close(w.seen)
	}
	return n, err
}

// gated reads when a channel is closed.
type gated struct {
	r    io.Reader
	open chan struct{}
}

func (g *gated) Read(p []byte) (int, error) {
	<-g.open
	return g.r.Read(p)
}

// What is no origin is refused: an older or newer node must not be taken for a person.
func TestParseOrigin(t *testing.T) {
	for text, ok := range map[string]bool{
		`{}`: true, `{"pid":7,"agent":true,"path":"a/b"}`: true, `{"unknown":true}`: true,
		"": false, "null x": false, `{"pid":-1}`: false, `{"pid":1.5}`: false, `{"later":1}`: false, `[]`: false, `{} {}`: false,
		`{"path":"` + strings.Repeat("x", maxOrigin) + `"}`: false,
	} {
		if _, err := parseOrigin(text); (err == nil) != ok {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	for _, o := range []origin{{pid: 3}, {pid: 1, unknown: true}, {pid: 2, agent: &token.Caller{Path: "ä/\"b"}}, {agent: &token.Caller{}}} {
		got, err := parseOrigin(o.header(&http.Request{Method: "POST"}))
		if err != nil || got.pid != o.pid || got.unknown != o.unknown || (got.agent == nil) != (o.agent == nil) ||
			got.agent != nil && *got.agent != *o.agent {
			t.Errorf("%+v became %+v, %v", o, got, err)
		}
	}
}

// FuzzParseOrigin: no text makes it fail in another way, and what it takes is taken again.
func FuzzParseOrigin(f *testing.F) {
	f.Add(`{"pid":1,"agent":true,"path":"a","unknown":true,"order":"o"}`)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseOrigin(text)
		if err != nil {
			return
		}
		again, err := parseOrigin(o.header(&http.Request{Method: "POST", Header: http.Header{}}))
		if err != nil || (again.agent == nil) != (o.agent == nil) || again.unknown != o.unknown {
			t.Errorf("%q: %+v, %+v, %v", text, o, again, err)
		}
	})
}
