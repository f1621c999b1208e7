package api

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"sync"

	"github.com/coppice-dev/coppice/internal/event"
)

// Records answers from what the last daemon of a project has left, while none
// runs: the part of Daemon that reads. Each method answers as the daemon's would,
// with what is known without it. Events and Logs that are to follow end with
// ErrDown after what is there.
type Records interface {
	Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error]
	Logs(ctx context.Context, q LogQuery) iter.Seq2[LogLine, error]
}

// recordRoutes are those that Records answers.
var recordRoutes = map[string]bool{"GET /v1/events": true, "GET /v1/logs": true}

// onlyRecords is a Daemon of which only the methods of Records may be called.
type onlyRecords struct {
	unanswered
	Records
}

// unanswered has the methods of a Daemon one level deeper than Records has its own.
type unanswered struct{ Daemon }

// RegisterRecords has Records answer the routes that no feature owns.
func RegisterRecords(s *Server, r Records) {
	s.service = onlyRecords{Records: r}
	for _, rt := range routes() {
		if recordRoutes[rt.method+" "+rt.path] {
			s.add(&rt)
		}
	}
}

// Local returns a client of a server in this process, for while no daemon runs:
// register gives it routes that need none, and all others fail with ErrDown. Close ends it.
func Local(register func(*Server)) *Client {
	s := NewServer(nil, slog.New(slog.DiscardHandler))
	s.local = true
	register(s)
	ctx, end := context.WithCancel(context.Background())
	l := &localListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	c := newClient(l.dial)
	c.socket = l.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(ctx, l)
	}()
	c.end = func() {
		end()
		<-served
	}
	return c
}

// localListener is a net.Listener for clients in the same process.
type localListener struct {
	conns  chan net.Conn
	close  sync.Once
	closed chan struct{}
}

func (l *localListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *localListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *localListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *localListener) Addr() net.Addr { return localAddr{} }

type localAddr struct{}

func (localAddr) Network() string { return "local" }
func (localAddr) String() string  { return "this process" }
