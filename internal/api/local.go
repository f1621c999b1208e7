package api

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"sync"
)

// Local returns a client of a server in this process, for use while no daemon runs. register adds
// the routes that need no daemon; all others fail with ErrDown. Close stops the server.
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
func (l *localListener) Addr() net.Addr { return &net.UnixAddr{Name: "this process", Net: "local"} }

// Finite yields the items that exist while no daemon runs. If follow is set, it then yields
// ErrDown.
func Finite[T any](all iter.Seq2[T, error], follow bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range all {
			if !yield(item, err) || err != nil {
				return
			}
		}
		if follow {
			var none T
			yield(none, fmt.Errorf("%w: nothing follows", ErrDown))
		}
	}
}
