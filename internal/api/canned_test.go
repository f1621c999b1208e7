package api

import (
	"context"
	"iter"

	"github.com/coppice-dev/coppice/internal/token"
)

// canned answers the routes of tests. It says the same always: nothing, everything, or an error.
type canned struct {
	full bool
	err  error
	// What the methods do instead, where a test sets it.
	events func(ctx context.Context, after uint64, yield func(counted, error) bool)
	attach func(ctx context.Context, v Viewer) error
	act    func(ctx context.Context) error
}

func (c canned) Caller(_ context.Context, given string) (token.Caller, error) {
	if given == "stale" {
		return token.Caller{}, token.ErrStale
	}
	return token.Caller{Path: "app/a", Incarnation: 1}, c.err
}

func (c canned) Owner(int) (*token.Caller, error) { return nil, nil }
func (c canned) Denied(token.Caller, int, string) {}

func (c canned) RunOf(int) string { return "" }

// Act answers actRoute.
func (c canned) Act(ctx context.Context) error {
	if c.act != nil {
		return c.act(ctx)
	}
	return c.err
}

// counted answers a stream of a test.
func (c canned) counted(ctx context.Context, r countRequest) iter.Seq2[counted, error] {
	return func(yield func(counted, error) bool) {
		switch {
		case c.events != nil:
			c.events(ctx, r.After, yield)
		case c.err != nil:
			yield(counted{}, c.err)
		case c.full:
			yield(counted{N: 1}, nil)
		}
	}
}

func (c canned) attachTo(ctx context.Context, _ string, v Viewer) error {
	if c.attach != nil {
		return c.attach(ctx, v)
	}
	return c.err
}
