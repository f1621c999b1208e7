package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
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

func (c canned) Caller(_ context.Context, token string) (Caller, error) {
	if token == "stale" {
		return Caller{}, ErrStale
	}
	return Caller{"app/a", 1}, c.err
}

func (c canned) Status(context.Context) (Status, error) {
	if !c.full {
		return Status{}, c.err
	}
	return Status{
		Project: "app", Controller: Controller{1, "n", "v", time.Now(), 1.5}, Summary: map[string]int{"running": 1},
		Store: Store{"sqlite", "/x", false, "why"}, Config: Config{"/c", "r", time.Now(), "bad"},
	}, nil
}

func (c canned) node() Node {
	now := time.Now()
	return Node{"app/a", "agent", "one_for_one", "proc", "running", "r", 1, "n", 1, 2, 3, 5, "l", &now, 1.5, &now, "exit 1", "at work", fullVitals(), &Drain{"r", 1.5, true}}
}

func (c canned) Nodes(context.Context, string) ([]Node, error) {
	if !c.full {
		return nil, c.err
	}
	return []Node{c.node()}, nil
}

func (c canned) Explain(context.Context, string) (Explanation, error) {
	if !c.full {
		return Explanation{Node: Node{Kind: "agent"}}, c.err
	}
	return Explanation{c.node(), "r", []string{"e"}, "n", "h", []event.Event{full()}, []string{"t"}}, nil
}

func full() event.Event {
	return event.Event{Seq: 1, Time: time.Now(), Type: "a.b", Path: "app/a", Incarnation: 1, Actor: "u", Message: "m",
		Data: json.RawMessage(`[1]`), Truncated: 1, Extra: map[string]json.RawMessage{"more": json.RawMessage("1")}}
}

func (c canned) Act(ctx context.Context, _ string, _ Action) error {
	if c.act != nil {
		return c.act(ctx)
	}
	return c.err
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

func (c canned) Logs(context.Context, string, int, bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if c.err != nil {
			yield("", c.err)
		} else if c.full {
			yield("line", nil)
		}
	}
}

func (c canned) Attach(ctx context.Context, _ string, input io.Reader, output io.Writer, sizes <-chan [2]uint16) error {
	if c.attach != nil {
		return c.attach(ctx, input, output, sizes)
	}
	return c.err
}

func fullVitals() *Vitals {
	age, progress := 1.5, int64(-7)
	return &Vitals{&age, 60, &progress, "n", 2.5, 600, true, true}
}

func (c canned) Ready(context.Context, Caller) error                        { return c.err }
func (c canned) Heartbeat(context.Context, Caller, Beat) error              { return c.err }
func (c canned) RequestRestart(_ context.Context, _ Caller, _ string) error { return c.err }
func (c canned) Drain(context.Context, DrainRequest) error                  { return c.err }
func (c canned) AckDrain(context.Context, Caller) error                     { return c.err }

func (c canned) Hook(context.Context, Caller) ([]Notice, error) {
	if !c.full {
		return nil, c.err
	}
	return []Notice{{"drain", "t"}}, nil
}

func (c canned) Draining(context.Context, Caller) (*Drain, error) {
	if !c.full {
		return nil, c.err
	}
	return &Drain{"r", 1.5, true}, nil
}
