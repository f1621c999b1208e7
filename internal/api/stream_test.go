package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
)

// counting yields numbered events for ever.
func counting(ctx context.Context, after uint64, yield func(counted, error) bool) {
	for n := after + 1; ctx.Err() == nil; n++ {
		if !yield(numbered(n), nil) {
			return
		}
	}
}

// A client that follows sees each event once, in order, although its daemon is
// killed again and again.
func TestFollowSurvivesDaemons(t *testing.T) {
	socket := tempSocket(t)
	c := dial(t, socket)
	// Each daemon cuts its connections off after some bytes.
	stop := make(chan struct{})
	var lives int
	var daemons sync.WaitGroup
	first := make(chan struct{})
	daemons.Go(func() {
		for {
			l, err := endpoint.Listen(socket)
			if err != nil {
				t.Error(err)
				return
			}
			dead := make(chan struct{})
			srv := &http.Server{Handler: newServer(canned{events: counting}, defaultTimeouts())}
			left := 1 + rand.IntN(20_000)
			if lives++; lives == 1 {
				left += 1000 // a client that has never seen a daemon gives up
				close(first)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				srv.Serve(&mortal{Listener: l, left: left, dead: dead})
			}()
			select {
			case <-dead:
			case <-stop:
			}
			srv.Close()
			<-ended
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-first
	want := uint64(100)
	for e, err := range follow(t.Context(), c, want) {
		if want++; err != nil || e.N != want {
			t.Errorf("event %d, %v, want %d", e.N, err, want)
			break
		}
		if want == 5_000 {
			break
		}
	}
	close(stop)
	daemons.Wait()
	if lives < 5 {
		t.Errorf("only %d daemons", lives)
	}
}

// mortal is a listener whose connections die together after some bytes were written.
type mortal struct {
	net.Listener
	mu   sync.Mutex
	left int
	dead chan struct{}
}

func (m *mortal) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &mortalConn{conn, m}, nil
}

type mortalConn struct {
	net.Conn
	m *mortal
}

func (c *mortalConn) Write(p []byte) (int, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	n := min(len(p), c.m.left)
	if c.m.left -= n; n == len(p) {
		return c.Conn.Write(p)
	}
	c.Conn.Write(p[:n])
	c.Conn.Close()
	select {
	case <-c.m.dead:
	default:
		close(c.m.dead)
	}
	return n, io.ErrClosedPipe
}

// A daemon that stops in order says so; one that disappears is waited for only so long.
func TestFollowEnds(t *testing.T) {
	waiting := canned{events: func(ctx context.Context, _ uint64, yield func(counted, error) bool) {
		if yield(numbered(1), nil) {
			<-ctx.Done()
			yield(counted{}, ctx.Err())
		}
	}}
	s := start(t, waiting, "", fastTimeouts())
	c := dial(t, s.socket)
	var last error
	for _, err := range follow(t.Context(), c, 0) {
		if last = err; err == nil {
			go s.stop()
		}
	}
	if !errors.Is(last, ErrStopping) {
		t.Errorf("ended with %v", last)
	}

	s = start(t, canned{events: func(_ context.Context, _ uint64, yield func(counted, error) bool) {
		yield(numbered(1), nil)
		panic(http.ErrAbortHandler)
	}}, "", fastTimeouts())
	c = dial(t, s.socket)
	c.timeouts.noDaemon = 30 * time.Millisecond
	n := 0
	for _, err := range follow(t.Context(), c, 0) {
		if n++; err == nil {
			go s.stop()
		}
		last = err
	}
	if n != 2 || !(errors.Is(last, ErrDown) || errors.Is(last, ErrStopping)) {
		t.Errorf("%d things, ended with %v", n, last)
	}
}

// Without follow a stream that is cut off is an error, not the end.
func TestCutOff(t *testing.T) {
	s := start(t, canned{events: func(_ context.Context, _ uint64, yield func(counted, error) bool) {
		yield(numbered(1), nil)
		panic(http.ErrAbortHandler)
	}}, "", fastTimeouts())
	var last error
	for _, err := range counts.Open(t.Context(), dial(t, s.socket), countRequest{}) {
		last = err
	}
	if !errors.Is(last, ErrLost) {
		t.Errorf("ended with %v", last)
	}
}

// Silence is the end of a connection, signs of life are not silence.
func TestSilence(t *testing.T) {
	asked := 0
	service := canned{events: func(ctx context.Context, after uint64, yield func(counted, error) bool) {
		asked++ // from one handler after the other
		if !yield(numbered(after+1), nil) {
			return
		}
		select {
		case <-time.After(700 * time.Millisecond):
			yield(numbered(after+2), nil)
		case <-ctx.Done():
		}
	}}
	for _, heartbeat := range []time.Duration{5 * time.Millisecond, time.Hour} {
		p := fastTimeouts()
		p.begin, p.heartbeat, asked = heartbeat, heartbeat, 0
		s := start(t, service, "", p)
		c := dial(t, s.socket)
		c.timeouts.silence = 250 * time.Millisecond
		n := uint64(0)
		for e, err := range follow(t.Context(), c, 0) {
			if n++; err != nil || e.N != n {
				t.Errorf("event %d, %v, want %d", e.N, err, n)
			}
			if n == 2 {
				break
			}
		}
		s.stop()
		if quiet := heartbeat == time.Hour; (asked == 2) != quiet || asked > 2 {
			t.Errorf("a sign of life each %v: asked %d times", heartbeat, asked)
		}
	}
}

// The server notices a client that is gone although there is nothing to say,
// and one that does not read although there is much.
func TestServerLetsGo(t *testing.T) {
	p := fastTimeouts()
	p.write = 50 * time.Millisecond
	let := make(chan struct{}, 1)
	s := start(t, canned{events: func(ctx context.Context, after uint64, yield func(counted, error) bool) {
		if after == 1 {
			<-ctx.Done()
		} else {
			big := numbered(1)
			big.Text = strings.Repeat("x", 60_000)
			for yield(big, nil) {
			}
		}
		let <- struct{}{}
	}}, "", p)
	for _, request := range []string{"GET /v1/counts?after=1&follow=true", "GET /v1/counts?follow=true"} {
		conn, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n\r\n", request)
		if _, err := conn.Read(make([]byte, 10)); err != nil {
			t.Error(err)
		}
		if strings.Contains(request, "after") {
			conn.Close()
		}
		select {
		case <-let:
		case <-time.After(testTimeout):
			t.Errorf("%s goes on", request)
		}
		conn.Close()
	}
}

var sseCases = []struct {
	in   string
	want []message
}{
	{"", nil},
	{"data: a\n\n", []message{{data: []byte("a")}}},
	{"data:a\r\rdata: b\r\n\r\ndata:  c\n\n", []message{{data: []byte("a")}, {data: []byte("b")}, {data: []byte(" c")}}},
	{"\xEF\xBB\xBFid: 7\nevent: end\ndata: {}\n\ndata: x\n\n", []message{{"7", "end", []byte("{}")}, {id: "7", data: []byte("x")}}},
	{": alive\n\n: again\n\nid: 1\n\ndata: x\n\n", []message{{id: "1", data: []byte("x")}}},
	{"data: a\ndata: b\n\n", []message{{data: []byte("a\nb")}}},
	{"data\n\nid\n\ndata: cut", []message{{data: []byte("")}}},
	{"data: whole\n\ndata: cut\n", []message{{data: []byte("whole")}}},
	{"id: a\x00b\ndata: x\nwhat: ever\nretry: 1\n\n", []message{{data: []byte("x")}}},
}

func TestReadMessages(t *testing.T) {
	for _, tc := range sseCases {
		for _, r := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
			var got []message
			for m, err := range readMessages(r) {
				if err == nil {
					got = append(got, m)
				} else if err != io.EOF {
					t.Errorf("%q: %v", tc.in, err)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(message{})); diff != "" {
				t.Errorf("%q (-want +got)\n%s", tc.in, diff)
			}
		}
	}
}

// A message comes as soon as its end is there, whatever ends its lines.
func TestMessageIsNotHeldBack(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n"} {
		r, w := io.Pipe()
		go w.Write([]byte("data: x" + end))
		for m, err := range readMessages(r) {
			if err != nil || string(m.data) != "x" {
				t.Errorf("%q: %q, %v", end, m.data, err)
			}
			break
		}
		r.Close()
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestEndlessMessage(t *testing.T) {
	lines := iotest.DataErrReader(io.MultiReader(strings.NewReader("data: "), endless{}))
	for _, err := range readMessages(lines) {
		if !errors.Is(err, errMessageTooLong) {
			t.Error(err)
		}
	}
	many := strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", maxMessage/1000))
	for _, err := range readMessages(many) {
		if !errors.Is(err, errMessageTooLong) {
			t.Error(err)
		}
	}
}

func FuzzReadMessages(f *testing.F) {
	for _, tc := range sseCases {
		f.Add([]byte(tc.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		read := func(r io.Reader) (all []message) {
			for m, err := range readMessages(r) {
				if err == nil {
					all = append(all, m)
				}
			}
			return all
		}
		whole := read(bytes.NewReader(in))
		if diff := cmp.Diff(whole, read(iotest.OneByteReader(bytes.NewReader(in))), cmp.AllowUnexported(message{})); diff != "" {
			t.Fatalf("it depends on how it arrives:\n%s", diff)
		}
		for _, m := range whole { // what was read can be sent, and is the same then
			if bytes.ContainsAny(m.data, "\r\n") {
				continue
			}
			if diff := cmp.Diff([]message{m}, read(bytes.NewReader(m.bytes())), cmp.AllowUnexported(message{})); diff != "" {
				t.Fatalf("%q is not itself:\n%s", m.bytes(), diff)
			}
		}
	})
}
