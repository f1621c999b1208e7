package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/token"
)

// canned is a Service that says the same always: nothing, everything, or an error.
type canned struct {
	Daemon // what is not canned
	full   bool
	err    error
	// What the methods do instead, where a test sets it.
	events func(ctx context.Context, after uint64, yield func(event.Event, error) bool)
	attach func(ctx context.Context, input io.Reader, output io.Writer, sizes <-chan [2]uint16) error
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

func cannedPool() Pool {
	now := time.Now()
	return Pool{2, 3, 1, 1, 5, 2, true, &now, "no queue", true, true, true}
}

func full() event.Event {
	return event.Event{Seq: 1, Time: time.Now(), Type: "a.b", Path: "app/a", Incarnation: 1, Actor: "u", Message: "m",
		Data: json.RawMessage(`[1]`), Truncated: 1, Extra: map[string]json.RawMessage{"more": json.RawMessage("1")}}
}

func (c canned) Act(ctx context.Context, _ string, _ Action) (done Acted, err error) {
	if c.act != nil {
		return done, c.act(ctx)
	}
	if c.full {
		done = Acted{2, []string{"app/a"}}
	}
	return done, c.err
}

func (c canned) Down(context.Context, bool) error { return c.err }

func (c canned) Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		switch {
		case c.events != nil:
			c.events(ctx, q.After, yield)
		case c.err != nil:
			yield(event.Event{}, c.err)
		case c.full:
			yield(full(), nil)
		}
	}
}

func (c canned) Unfinished(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("1%", c.err) }
}

func (c canned) Logs(context.Context, LogQuery) iter.Seq2[LogLine, error] {
	return func(yield func(LogLine, error) bool) {
		if c.err != nil {
			yield(LogLine{}, c.err)
		} else if c.full {
			yield(LogLine{
				Path: "app/db", Line: "line", Time: time.Now(), Incarnation: 2, Position: "1.2.0.", Live: true,
				Between: &Between{Ended: 1, EndedAt: time.Now(), Exit: "exit code 1", Began: 2},
			}, nil)
		}
	}
}

func (c canned) Attach(ctx context.Context, _ string, input io.Reader, output io.Writer, sizes <-chan [2]uint16) error {
	if c.attach != nil {
		return c.attach(ctx, input, output, sizes)
	}
	return c.err
}

func (c canned) Ready(context.Context, token.Caller) error                        { return c.err }
func (c canned) Heartbeat(context.Context, token.Caller, Beat) error              { return c.err }
func (c canned) RequestRestart(_ context.Context, _ token.Caller, _ string) error { return c.err }
func (c canned) Patrol(context.Context, bool) (Round, error) {
	until := time.Now()
	return Round{[]RoundAction{{"renew", "app/a", "drifted", []string{"env.MODEL"}, "r"}}, []RoundDelay{{"app/b", "app/a", &until, "idle"}}, []PoolAt{{"app/w", cannedPool()}}}, c.err
}
func (c canned) Reload(context.Context) (Reloaded, error) {
	return Reloaded{"rev", true, 1, 2, 3, 4, 5}, c.err
}
func (c canned) Drain(context.Context, DrainRequest) error    { return c.err }
func (c canned) AckDrain(context.Context, token.Caller) error { return c.err }

func (c canned) Hook(context.Context, token.Caller, string) ([]Notice, error) {
	if !c.full {
		return nil, c.err
	}
	return []Notice{{"mail", "m-1", "t"}, {"drain", "", "t"}}, nil
}

func (c canned) Farewell(context.Context) (Farewell, error) {
	return Farewell{Overdue: []Overdue{{Path: "app/db", PID: 42, Waited: 5}}}, c.err
}

func (c canned) Draining(context.Context, token.Caller) (*Drain, error) {
	if !c.full {
		return nil, c.err
	}
	return &Drain{"r", 1.5, true}, nil
}
