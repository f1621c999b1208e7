package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

func open(t *testing.T, s store.Store) *Service {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	log, err := event.Open(event.Config{Store: s, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		log.Close(ctx)
	})
	return New(Options{
		Store: s, Log: log, Logger: quiet,
		End: func(_ context.Context, _ token.Caller, id string, _ outcome.Outcome) (*task.Task, error) {
			switch id {
			case "":
				return nil, nil
			case "web-1":
				return &task.Task{ID: id, Status: task.Closed}, nil
			}
			return nil, api.NewError(api.ErrNotFound, "no such task")
		},
	})
}

func completed(t *testing.T, summary string) outcome.Outcome {
	t.Helper()
	o, err := outcome.New(outcome.Report{Kind: outcome.Completed, Summary: summary})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// claimsAs returns the claims of a path in short: incarnation, revisions, summary.
func claimsAs(c *Service, path string) string {
	var all []string
	for _, x := range c.List(context.Background(), path) {
		all = append(all, fmt.Sprint(x.Incarnation, " ", x.Revisions, " ", x.Report.Summary))
	}
	return strings.Join(all, "; ")
}

func claimEvents(t *testing.T, c *Service) (messages []string) {
	t.Helper()
	events, _, err := c.o.Log.Read(context.Background(), 0, event.Filter{Types: []string{string(event.AgentClaimed)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		messages = append(messages, e.Message)
	}
	return messages
}

// An incarnation has one claim, which it may revise. The next one, and one of another life with the
// same number, have their own.
func TestClaims(t *testing.T) {
	ctx := context.Background()
	s := memory.New()
	defer s.Close()
	c := open(t, s)
	say := func(incarnation uint64, summary string) {
		t.Helper()
		if err := c.Record(ctx, token.Caller{Path: "t/a b", Incarnation: incarnation}, completed(t, summary)); err != nil {
			t.Fatal(err)
		}
	}
	c.Begin("t/a b", "token 1")
	say(1, "half")
	say(1, "half") // a repetition has no event
	say(1, "whole")
	c = open(t, s) // the next daemon, which has adopted the incarnation
	c.Begin("t/a b", "token 1")
	say(1, "whole again")
	c.Begin("t/a b", "token 2")
	say(2, "more")
	c.Begin("t/a b", "token 3") // numbers start again
	say(2, "another life")
	if got, want := claimsAs(c, "t/a b"), "1 2 whole again; 2 0 more; 2 0 another life"; got != want {
		t.Errorf("claims: %s\nwant    %s", got, want)
	}
	want := []string{"t/a b claims: completed: half", "t/a b claims now: completed: whole", "t/a b claims now: completed: whole again",
		"t/a b claims: completed: more", "t/a b claims: completed: another life"}
	if got := claimEvents(t, c); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The numbers of claims and revisions are bounded.
func TestClaimsAreBounded(t *testing.T) {
	ctx := context.Background()
	s := memory.New()
	defer s.Close()
	c := open(t, s)
	for i := uint64(1); i <= keep+5; i++ {
		c.Begin("t/a", fmt.Sprint(i))
		if err := c.Record(ctx, token.Caller{Path: "t/a", Incarnation: i}, completed(t, "x")); err != nil {
			t.Fatal(err)
		}
	}
	// Agents below have their own claims, whatever their names.
	below := "t/a/" + strings.Repeat("0", 19) + "7"
	if err := c.Record(ctx, token.Caller{Path: below, Incarnation: 1}, completed(t, "below")); err != nil {
		t.Fatal(err)
	}
	all := c.List(ctx, "t/a")
	if len(all) != keep || all[0].Incarnation != 6 || all[keep-1].Incarnation != keep+5 {
		t.Errorf("%d claims: %+v", len(all), all)
	}
	if got := claimsAs(c, below); got != "1 0 below" {
		t.Errorf("below: %s", got)
	}
	who := token.Caller{Path: "t/b", Incarnation: 1}
	for i := range maxRevisions + 1 {
		if err := c.Record(ctx, who, completed(t, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Record(ctx, who, completed(t, "one too many")); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "revised its outcome 100 times") {
		t.Errorf("error %v", err)
	}
	if got, want := claimsAs(c, "t/b"), fmt.Sprintf("1 %d %d", maxRevisions, maxRevisions); got != want {
		t.Errorf("claims %s, want %s", got, want)
	}
}

// A claim that cannot be read affects no other one, and the oldest is still removed first.
func TestClaimsDamaged(t *testing.T) {
	ctx := context.Background()
	s := memory.New()
	defer s.Close()
	put := func(n uint64, value string) store.Op {
		return store.Op{Kind: store.Put, Key: store.SequenceKey(key("t/a"), n), Value: []byte(value)}
	}
	if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{
		put(1, `{"path":"t/a","incarnation":1,"report":{"kind":"of a later version"}}`), put(2, `{"path":"t/a","incar`), put(3, `{"path":"t/a","incarnation":"three"}`),
	}); err != nil {
		t.Fatal(err)
	}
	c := open(t, s)
	if err := c.Record(ctx, token.Caller{Path: "t/a", Incarnation: 4}, completed(t, "fine")); err != nil {
		t.Fatal(err)
	}
	if got := claimsAs(c, "t/a"); got != "1 0 ; 4 0 fine" {
		t.Errorf("claims %s", got)
	}
}

// full is a store that takes no writes.
type full struct{ store.Store }

func (full) Apply(context.Context, store.Fence, []store.Cond, []store.Op) (store.Rev, error) {
	return 0, store.ErrFull
}

// Record returns only when the claim is durable.
func TestClaimIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		c := open(t, full{s})
		err := c.Record(context.Background(), token.Caller{Path: "t/a", Incarnation: 1}, completed(t, "x"))
		if !errors.Is(err, api.ErrConflict) || !errors.Is(err, store.ErrFull) {
			t.Errorf("error %v", err)
		}
	})
}

// An agent can report through the API, and incomplete reports are refused.
func TestReport(t *testing.T) {
	s := memory.New()
	defer s.Close()
	c := open(t, s)
	agent := apitest.Serve(t, c.Register).Agent("t/a")
	done, err := Report.Call(t.Context(), agent, Request{Report: completed(t, "done").Report(), Task: "web-1"})
	if err != nil || done.Task == nil || done.Task.Status != task.Closed {
		t.Errorf("%+v, %v", done, err)
	}
	_, err = Report.Call(t.Context(), agent, Request{Report: completed(t, "refused").Report(), Task: "web-2"})
	if !errors.Is(err, api.ErrNotFound) {
		t.Errorf("a task that it cannot end: %v", err)
	}
	if _, err := Report.Call(t.Context(), agent,
		Request{Report: outcome.Report{Kind: outcome.Deferred}}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("half a report: %v", err)
	}
	if got := claimsAs(c, "t/a"); got != "1 0 done" {
		t.Errorf("claims %s", got)
	}
}
