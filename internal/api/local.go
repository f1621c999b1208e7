package api

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/coppice-dev/coppice/internal/api/pipe"
)

// Local returns a client of a server in this process, for use while no daemon runs. register adds
// the routes that need no daemon; all others fail with ErrDown. Close stops the server.
func Local(register func(*Server)) *Client {
	s := NewServer(nil, slog.New(slog.DiscardHandler))
	s.local = true
	register(s)
	ctx, end := context.WithCancel(context.Background())
	l := pipe.Listen()
	c := newClient(l.Dial)
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
