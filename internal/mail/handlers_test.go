package mail

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// tree is a Directory with the supervisor t/s and some agents.
type tree []string

func (d tree) Project() string                { return "t" }
func (d tree) HasAgent(path string) bool      { return slices.Contains(d, path) }
func (d tree) HasSupervisor(path string) bool { return path == "t/s" }
func (d tree) Agents() []string               { return d }

// events is a Log that collects events.
type events []event.Event

func (l *events) Op(e event.Event) store.Op {
	*l = append(*l, e)
	return store.Op{Kind: store.Put, Key: "events/last", Value: []byte(e.Message)}
}

// Agents and people exchange messages through the API, each with their own mailbox.
func TestHandlers(t *testing.T) {
	s := memory.New()
	defer s.Close()
	var log events
	var arrived, handled []string
	m, err := Open(t.Context(), Options{
		Store: s, Logger: slog.New(slog.DiscardHandler), Log: &log, Agents: tree{"t/a", "t/s/b"},
		Arrived: func(m Message) { arrived = append(arrived, m.To) },
		Handled: func(_ context.Context, all []Message) error { handled = append(handled, ids(all)); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d := apitest.Serve(t, m.Register)
	people, a, b := d.People(), d.Agent("t/a"), d.Agent("t/s/b")
	ctx := t.Context()

	sent, err := Send.Call(ctx, people, SendRequest{To: "s/b", Body: "hello\nthere", Key: "k"})
	if err != nil || sent.From != People || sent.To != "t/s/b" || sent.Subject != "hello" || sent.Body != "" {
		t.Fatalf("%+v, %v", sent, err)
	}
	if again, err := Send.Call(ctx, people, SendRequest{To: "t/s/b", Body: "hello\nthere", Key: "k"}); err != nil || again.ID != sent.ID {
		t.Errorf("under the same key: %+v, %v", again, err)
	}
	if own, err := List.Call(ctx, a, ListRequest{All: true}); err != nil || own == nil || len(own) != 0 {
		t.Errorf("the mailbox of another agent: %#v, %v", own, err)
	}
	if _, err := Read.Call(ctx, a, IDs{IDs: []string{sent.ID}}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("the message of another agent is read: %v", err)
	}
	for range 2 { // the same key delivers the same messages
		if told, err := Deliver.Call(ctx, b, DeliverRequest{Key: "d"}); err != nil || ids(told) != sent.ID {
			t.Errorf("%+v, %v", told, err)
		}
	}
	if got, err := Read.Call(ctx, b, IDs{IDs: []string{sent.ID}}); err != nil || got[0].Body != "hello\nthere" || got[0].ReadBy != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	reply, err := Send.Call(ctx, b, SendRequest{ReplyTo: sent.ID, Body: "yes"})
	if err != nil || reply.To != People || reply.From != "t/s/b" || reply.Incarnation != 1 {
		t.Errorf("%+v, %v", reply, err)
	}
	if _, err := Archive.Call(ctx, people, IDs{IDs: []string{reply.ID}}); err != nil {
		t.Error(err)
	}
	if all, err := List.Call(ctx, people, ListRequest{}); err != nil || len(all) != 0 {
		t.Errorf("unread after all was put away: %+v, %v", all, err)
	}
	if want := []string{"t/s/b"}; !slices.Equal(arrived, want) {
		t.Errorf("arrived for %q, want %q", arrived, want)
	}
	if want := []string{sent.ID}; !slices.Equal(handled, want) {
		t.Errorf("handled by agents: %q, want %q", handled, want)
	}
	if len(log) < 2 || log[0].Type != event.MailSent || log[0].Path != "t/s/b" || strings.Contains(log[0].Message, "there") {
		t.Errorf("%+v", log)
	}
}

// An invalid message is refused with a reason and a code.
func TestRefused(t *testing.T) {
	s := memory.New()
	defer s.Close()
	m, err := Open(t.Context(), Options{Store: s, Logger: slog.New(slog.DiscardHandler), Agents: tree{"t/writer", "t/user"}})
	if err != nil {
		t.Fatal(err)
	}
	people := apitest.Serve(t, m.Register).People()
	for to, want := range map[string]struct {
		to   string
		kind error
		text string
	}{
		"writer": {to: "t/writer"}, "/t/writer/": {to: "t/writer"}, "people": {to: People}, "human": {to: People}, "user": {to: "t/user"},
		"s":       {kind: api.ErrInvalid, text: "t/s is a supervisor"},
		"writers": {kind: api.ErrNotFound, text: `did you mean "writer"?`},
		"pepole":  {kind: api.ErrNotFound, text: `did you mean "people"?`},
		"":        {kind: api.ErrInvalid, text: "missing recipient"},
	} {
		sent, err := Send.Call(t.Context(), people, SendRequest{To: to, Subject: "x"})
		if !errors.Is(err, want.kind) || err != nil && !strings.Contains(err.Error(), want.text) || sent.To != want.to {
			t.Errorf("%q: to %q, %v; want %+v", to, sent.To, err, want)
		}
	}
	for _, route := range []func(context.Context, *api.Client, IDs) error{
		func(ctx context.Context, c *api.Client, i IDs) error { _, err := Read.Call(ctx, c, i); return err },
		func(ctx context.Context, c *api.Client, i IDs) error { _, err := Archive.Call(ctx, c, i); return err },
	} {
		if err := route(t.Context(), people, IDs{}); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("without ids: %v", err)
		}
		if err := route(t.Context(), people, IDs{IDs: make([]string, maxBatch+1)}); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("with too many ids: %v", err)
		}
	}
}

// Without a daemon people can read messages, and nothing is marked.
func TestReadOnly(t *testing.T) {
	s := memory.New()
	defer s.Close()
	m := open(t, s)
	sent := send(t, m, Post{From: "t/a", To: People, Body: "b"})
	c := api.Local(m.RegisterReadOnly)
	defer c.Close()
	for range 2 {
		if got, err := Read.Call(t.Context(), c, IDs{IDs: []string{sent.ID}}); err != nil || got[0].Body != "b" || !got[0].Unread() {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := Archive.Call(t.Context(), c, IDs{IDs: []string{sent.ID}}); !errors.Is(err, api.ErrDown) {
		t.Error(err)
	}
}
