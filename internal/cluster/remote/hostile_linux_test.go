package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/store"
)

// raw is a connection to a node that sends what it likes.
type raw struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

func (w *way) raw(t *testing.T, path string) *raw {
	t.Helper()
	nc, in, err := w.client.upgrade(ctxOf(t), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(testTimeout))
	return &raw{t, nc, in}
}

func (r *raw) send(messages ...any) {
	r.t.Helper()
	for _, m := range messages {
		b, err := message.Encode(m)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.nc.Write(b); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *raw) answer() *message.Answer {
	r.t.Helper()
	a := new(message.Answer)
	if _, err := message.Read(r.in, a); err != nil {
		r.t.Fatal(err)
	}
	return a
}

// over checks that the node ends the connection.
func (r *raw) over(what string) {
	r.t.Helper()
	if _, err := io.Copy(io.Discard, r.in); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		r.t.Errorf("%s: the connection goes on", what)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

var greeting = message.Request{ID: 1, Op: message.OpHello, Version: message.Version, Client: "raw"}

// What is not a request ends its connection alone.
func TestHostileClient(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	s := start(t, w.far, sh("app/a", 1, forever))
	for what, bytes := range map[string]string{
		"nothing": "", "text": "GET / HTTP/1.1\r\n\r\n", "a huge frame": "m\xff\xff\xff\xff",
		"a half frame": "m\x00\x00\x00\x05{",
		"no JSON":      "m\x00\x00\x00\x02}}", "another frame": "d\x00\x00\x00\x01x",
	} {
		r := w.raw(t, Path)
		fmt.Fprint(r.nc, bytes)
		if bytes == "" || what == "a half frame" {
			r.nc.Close()
			continue
		}
		r.over(what + " in place of a hello")
		r = w.raw(t, Path)
		r.send(greeting)
		r.answer()
		fmt.Fprint(r.nc, bytes)
		r.over(what)
		r = w.raw(t, attachPath)
		fmt.Fprint(r.nc, bytes)
		r.over(what + " in place of an attach")
	}
	following := message.Request{ID: 2, Op: message.OpFollow, Ref: s.Ref}
	for what, requests := range map[string][]any{
		"no hello":                 {message.Request{ID: 1, Op: message.OpPing}},
		"a hello without a client": {message.Request{ID: 1, Op: message.OpHello, Version: message.Version}},
		"an ID that is used":       {greeting, following, following},
		"no ID":                    {greeting, message.Request{Op: message.OpList}},
		"too many references": {
			greeting, message.Request{Op: message.OpWatch, Refs: make([]message.Ref, message.MaxRefs+1)},
		},
	} {
		r := w.raw(t, Path)
		r.send(requests...)
		r.over(what)
	}
	r := w.raw(t, Path)
	r.send(message.Request{ID: 1, Op: message.OpHello, Version: message.Version + 1, Client: "newer"})
	if err := r.answer().Failure.Err(); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer version: %v", err)
	}
	f := store.Fence{Lease: "controller", Epoch: 7}
	for what, q := range map[string]message.Request{
		"not know the request": {Op: "dance", Ref: s.Ref, Fence: &f},
		"no runtime of the kind": {Op: message.OpStart, Ref: message.Ref{Kind: "docker", Path: "a", Token: "t"},
			Fence: &f},
		"has no fence": {Op: message.OpKill, Ref: s.Ref},
		"needs a token": {Op: message.OpStart, Ref: message.Ref{Kind: "proc", Path: "a", Incarnation: 1},
			Fence: &f},
		"the request has no launch": {Op: message.OpExec, Ref: s.Ref, Fence: &f},
		"no program named": {Op: message.OpExec, Ref: s.Ref, Fence: &f,
			Launch: &message.Launch{Launch: new(wire.Launch)}},
		"the request has no fence": {Op: message.OpExec, Ref: s.Ref, Launch: &message.Launch{Launch: new(wire.Launch)}},
		"has no launch": {Op: message.OpStart, Ref: message.Ref{Kind: "proc", Path: "a", Token: "t"},
			Fence: &f},
		"without a path": {Op: message.OpAdopt, Ref: message.Ref{Kind: "proc"}, Fence: &f},
		"has incarnation 1": {Op: message.OpKill, Fence: &f,
			Ref: message.Ref{Kind: "proc", Path: "app/a", Incarnation: 1}},
		"at most 32768 are possible": {Op: message.OpWrite, Ref: s.Ref, Fence: &f,
			Data: make([]byte, message.MaxData+1)},
		"no signal -1": {Op: message.OpSignal, Ref: s.Ref, Fence: &f,
			Signal: &message.Signal{Name: "SIGNONE"}},
		"bytes, at most 4096 are all": {Op: message.OpRemove, Fence: &f,
			Ref: message.Ref{Kind: "proc", Path: strings.Repeat("x", 1<<20)}},
	} {
		r := w.raw(t, Path)
		q.ID = 2
		r.send(greeting, q)
		r.answer()
		if err := r.answer().Failure.Err(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if o := until(t, s, "alive", alive); o.Incarnation != 1 {
		t.Errorf("%+v", o)
	}
}

// Nodes alone may use the routes, and only by upgrading.
func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	upgrade := "Connection: Upgrade\r\nUpgrade: " + message.Protocol + "\r\n"
	ask := func(head string) string {
		nc, err := w.dial(w.pair.controller, w.address)(ctxOf(t))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		fmt.Fprintf(nc, "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", head, "X: y\r\nContent-Length: 0\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(text))
	}
	for head, want := range map[string]string{
		"GET " + Path: "426", "POST " + Path: "426 expected a POST with Connection: Upgrade", "POST /other": "404",
	} {
		if got := ask(head); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", head, got)
		}
	}
	for name, path := range map[string]string{"main": Path, "attach": attachPath} {
		var rec recorder
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(upgrade))
		w.server.ServeHTTP(&rec, r) // as from a socket, without a certificate
		if rec.status != http.StatusUnauthorized {
			t.Errorf("%s, without a certificate: %d", name, rec.status)
		}
	}
}

type recorder struct{ status int }

func (r *recorder) Header() http.Header         { return make(http.Header) }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// A node that is removed from the fleet loses its connections, also that of a terminal.
func TestRemoved(t *testing.T) {
	t.Parallel()
	w := &way{pair: newPair(t)}
	local := openShim(t, shim.Options{Dir: slotsDir(t)})
	s := NewServer(Options{
		Runtimes: []runtime.Runtime{local}, Check: w.check, Admit: w.admits, Logger: logger(t), Epoch: w.epoch.Load,
		Localize: func(*runtime.Launch) error { return nil },
	})
	s.interval = 20 * time.Millisecond
	address := clustertest.Serve(t, mtls.Server(func() *identity.Identity { return w.other }, w.admits), s)
	c := w.connect(t, func() string { return address })
	w.far = &far{Runtime: c.Runtime("proc"), client: c, server: s, local: local}
	t.Cleanup(func() { w.Close() })
	l := sh("app/a", 1, forever)
	l.Terminal = true
	a := start(t, w.far, l)
	attached, resized := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		attached <- a.Attach(context.Background(), runtime.Attachment{Output: io.Discard, Resized: func(_, _ uint16) {
			select {
			case resized <- struct{}{}:
			default:
			}
		}})
	}()
	await(t, "the terminal", resized)
	w.mu.Lock()
	w.admit = func(name string) error { return fmt.Errorf("%s is banned", name) }
	w.mu.Unlock()
	if err := <-attached; !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("attached: %v", err)
	}
	until(t, a, "unknown", func(o runtime.Observation) bool {
		return o.Life == runtime.Unknown && strings.Contains(o.Detail, "does not answer since")
	})
	if _, err := w.Start(ctxOf(t), sh("app/b", 1, forever)); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("start: %v", err)
	}
	w.mu.Lock()
	w.admit = nil
	w.mu.Unlock()
	until(t, a, "alive", alive)
}

// A node that sends anything is connected to again, and its sessions are unknown.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hello := string(must(t, message.Answer{ID: 1, Version: message.Version}))
	for what, bytes := range map[string]string{
		"nothing": "", "text": "hello", "a huge frame": hello + "m\xff\xff\xff\xff",
		"another version": string(must(t, message.Answer{ID: 1, Version: 9})),
		"no version":      string(must(t, message.Answer{ID: 1})),
		"no JSON":         hello + "m\x00\x00\x00\x01}",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var connections atomic.Int64
			twice := make(chan struct{})
			address := clustertest.Serve(t, mtls.Server(func() *identity.Identity { return p.other }, p.admits),
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					nc, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						return
					}
					defer nc.Close()
					fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\n\r\n%s", bytes)
					if connections.Add(1) == 2 {
						close(twice)
					}
				}))
			c := p.connect(t, func() string { return address })
			await(t, what+": another connection", twice)
			if all, err := c.Runtime("proc").List(ctxOf(t)); err == nil {
				t.Errorf("%v", all)
			}
			c.Close()
		})
	}
}

// answering returns the address of a node that answers requests with messages, whatever these are.
func (p *pair) answering(t *testing.T, answers func(q *message.Request) []message.Answer) (address string) {
	t.Helper()
	hello := string(must(t, message.Answer{ID: 1, Version: message.Version}))
	return clustertest.Serve(t, mtls.Server(func() *identity.Identity { return p.other }, p.admits),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			nc, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer nc.Close()
			fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\n\r\n%s", hello)
			for {
				var q message.Request
				if _, err := message.Read(buffered, &q); err != nil {
					return
				}
				for _, a := range answers(&q) {
					nc.Write(must(t, a))
				}
			}
		}))
}

// Answers to no request are ignored, and a start without a state is unknown.
func TestUselessAnswers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	address := p.answering(t, func(q *message.Request) []message.Answer {
		line := message.Line{From: 9, Text: strings.Repeat("x", 1<<17)}
		flood := message.Answer{ID: q.ID, More: true, Output: []message.Line{line}}
		lost := message.LostState(message.Ref{Path: "x"}, io.EOF, time.Now())
		return []message.Answer{{ID: 99}, {ID: q.ID - 1, More: true}, {}, {State: &message.State{}},
			{State: lost}, flood, flood, flood, flood, {ID: q.ID, List: []message.State{{}}}, {ID: q.ID}}
	})
	c := p.connect(t, func() string { return address })
	defer c.Close()
	r := c.Runtime("proc")
	if s, err := r.Start(ctxOf(t), sh("app/a", 1, forever)); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("start: %v, %v", s, err)
	}
	if s, err := r.Adopt(ctxOf(t), "app/a"); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("adopt: %v, %v", s, err)
	}
	var n int
	l := runtime.Launch{Path: "app/a", Dir: "/", Argv: []string{"x"}}
	if _, err := r.Exec(ctxOf(t), l, func(line proc.Line) {
		n++
		if line.Stream != proc.Stdout || len(line.Text) > proc.MaxLine {
			t.Errorf("%v: %d bytes", line.Stream, len(line.Text))
		}
	}); err != nil || n == 0 || n > 4 {
		t.Errorf("exec: %d lines, %v", n, err)
	}
	if all, err := r.List(ctxOf(t)); err != nil || len(all) != 1 || all[0].Life != runtime.Unknown {
		t.Errorf("list: %v, %v", all, err)
	}
}

// A node that answers an adoption with several states holds up nothing.
func TestSeveralStates(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	address := p.answering(t, func(q *message.Request) (all []message.Answer) {
		if q.Op == message.OpAdopt {
			for _, ref := range []message.Ref{
				{Kind: "proc", Path: "other", Incarnation: 1}, {Kind: "proc", Path: q.Path, Incarnation: 1},
				{Kind: "proc", Path: q.Path, Incarnation: 1}, {Kind: "proc", Path: q.Path, Incarnation: 2},
			} {
				all = append(all, message.Answer{ID: q.ID, More: true,
					State: &message.State{Ref: ref, Life: runtime.Alive}})
			}
		}
		return append(all, message.Answer{ID: q.ID})
	})
	c := p.connect(t, func() string { return address })
	r := c.Runtime("proc")
	if s, err := r.Adopt(ctxOf(t), "app/a"); err != nil || s.Observe().Incarnation != 1 || len(c.sessions) != 1 {
		t.Errorf("adopt: %v, %v, %d sessions", s, err, len(c.sessions))
	}
	if _, err := r.List(ctxOf(t)); err != nil {
		t.Errorf("list: %v", err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	await(t, "the end of the client", closed)
}

// An answer without an end uses a bounded amount of memory, and one that was given up none.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	const size = 1 << 20
	address := p.answering(t, func(q *message.Request) []message.Answer {
		return []message.Answer{{ID: q.ID, More: true, Texts: []string{strings.Repeat("x", size)}}, {ID: q.ID}}
	})
	c := p.connect(t, func() string { return address })
	defer c.Close()
	var parts collector
	r := &message.Request{Op: message.OpRemoved, Ref: message.Ref{Kind: "proc"}}
	_, err := c.ask(ctxOf(t), r, true, func(l *link, a *message.Answer) {
		for n := 1; n == 1 || a.Size >= size && n <= maxAnswer/size; n++ {
			parts.add(l, a)
		}
	})
	if err != nil || len(parts.parts) > 0 {
		t.Errorf("%d parts are kept, %v", len(parts.parts), err)
	}
	if all, err := parts.close(); !errors.Is(err, errTooMuch) {
		t.Errorf("%d parts, %v", len(all), err)
	}
	var givenUp collector
	if _, err := givenUp.close(); err != nil {
		t.Error(err)
	}
	if givenUp.add(nil, &message.Answer{Size: 1}); len(givenUp.parts) > 0 {
		t.Error("parts of an answer that was given up are kept")
	}
}

func must(t *testing.T, v any) []byte {
	b, err := message.Encode(v)
	if err != nil {
		t.Error(err)
	}
	return b
}

// A node whose connection is open but silent is taken for one that does not answer.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	w := &way{pair: newPair(t)}
	local := openShim(t, shim.Options{Dir: slotsDir(t)})
	s, address := w.serve(t, local)
	w.proxy = newProxy(t, func() string { return address })
	w.address = w.proxy.address
	c := w.connectWith(t, w.address, time.Second) // a busy machine answers within three of these
	w.far = &far{Runtime: c.Runtime("proc"), client: c, server: s, local: local}
	t.Cleanup(func() { w.Close() })
	pair := w.connected(t)
	a := start(t, w.far, sh("app/a", 1, forever))
	l, _ := c.current()
	w.proxy.refuse(true)
	pair.hold()
	await(t, "the end of the connection", l.lost)
	until(t, a, "unknown", func(o runtime.Observation) bool {
		return o.Life == runtime.Unknown && strings.Contains(o.Detail, "n2 does not answer")
	})
	pair.close()
	w.proxy.refuse(false)
	until(t, a, "alive", alive)
}
