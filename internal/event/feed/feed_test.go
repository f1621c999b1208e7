package feed

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/event"
)

// serve returns a client of a server whose log is a function.
func serve(t *testing.T, log func(q event.Query, yield func(event.Event, error) bool)) *api.Client {
	return apitest.Serve(t, func(s *api.Server) {
		Handle(s, func(_ context.Context, q event.Query) iter.Seq2[event.Event, error] {
			return func(yield func(event.Event, error) bool) { log(q, yield) }
		})
	}).People()
}

func numbers(t *testing.T, all iter.Seq2[event.Event, error]) (numbers []uint64) {
	for e, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, e.Seq)
	}
	return numbers
}

// A log that was made again may go back; nothing else may.
func TestNumbersGoBack(t *testing.T) {
	c := serve(t, func(_ event.Query, yield func(event.Event, error) bool) {
		for _, n := range []uint64{11, 11, 12, 5} {
			yield(event.Event{Seq: n, Type: event.AgentStarted}, nil)
		}
		yield(event.Event{Seq: 2, Type: event.EventsReset}, nil)
		yield(event.Event{Seq: 3, Type: event.AgentStarted}, nil)
	})
	got := numbers(t, Events(t.Context(), c, event.Query{After: 10}))
	if want := []uint64{11, 12, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// A follower that was cut off goes on behind the last event, in the epoch that it had.
func TestFollowTwoConnections(t *testing.T) {
	var asked []event.Query
	c := serve(t, func(q event.Query, yield func(event.Event, error) bool) {
		asked = append(asked, q)
		if len(asked) == 1 {
			yield(event.Event{Seq: 7, Epoch: "e", Type: event.AgentStarted}, nil)
			panic(http.ErrAbortHandler)
		}
		yield(event.Event{Seq: 7, Epoch: "e", Type: event.AgentStarted}, nil)
		yield(event.Event{Seq: 8, Epoch: "e", Type: event.AgentStarted}, nil)
	})
	got := numbers(t, Events(t.Context(), c, event.Query{Last: 1, Follow: true}))
	if want := []uint64{7, 8}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
	if len(asked) != 2 || asked[0].Last != 1 || asked[1].After != 7 || asked[1].Last != 0 || asked[1].Epoch != "e" {
		t.Errorf("%+v", asked)
	}
}

func TestPatternThatNothingHas(t *testing.T) {
	c := serve(t, func(event.Query, func(event.Event, error) bool) { t.Error("it was asked") })
	for _, pattern := range []string{"[", "agent.crash"} {
		q := event.Query{Filter: event.Filter{Types: []string{pattern}}}
		for _, err := range Events(t.Context(), c, q) {
			if !errors.Is(err, api.ErrInvalid) {
				t.Errorf("%s: %v", pattern, err)
			}
		}
	}
}

// The header of a browser counts for more than the query.
func TestLastEventID(t *testing.T) {
	var got event.Query
	s := api.NewServer(nil, nil)
	Handle(s, func(_ context.Context, q event.Query) iter.Seq2[event.Event, error] {
		got = q
		return func(func(event.Event, error) bool) {}
	})
	r, err := http.NewRequest(http.MethodGet, "/v1/events?after=3&last=2&path=a", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", "12")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK || got.After != 12 || got.Last != 0 || got.Path != "a" {
		t.Errorf("%d: %+v", w.Code, got)
	}
}

// The time of a query reaches the log as it is; one that cannot be read is refused.
func TestSince(t *testing.T) {
	at := time.Date(2030, 1, 2, 12, 0, 0, 1, time.UTC)
	var got event.Query
	s := api.NewServer(nil, nil)
	Handle(s, func(_ context.Context, q event.Query) iter.Seq2[event.Event, error] {
		got = q
		return func(func(event.Event, error) bool) {}
	})
	for query, want := range map[string]int{
		"since=" + at.Format(time.RFC3339Nano): http.StatusOK, "since=yesterday": http.StatusBadRequest,
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/events?"+query, nil))
		if w.Code != want {
			t.Errorf("%s: %d, %s", query, w.Code, w.Body)
		}
	}
	if !got.Since.Equal(at) {
		t.Errorf("%v", got.Since)
	}
	c := serve(t, func(q event.Query, _ func(event.Event, error) bool) { got = q })
	numbers(t, Events(t.Context(), c, event.Query{Filter: event.Filter{Since: at.Add(time.Hour)}}))
	if !got.Since.Equal(at.Add(time.Hour)) {
		t.Errorf("%v", got.Since)
	}
}

// What is no event of this version is one with a number all the same.
func TestUnreadableEvent(t *testing.T) {
	for data, want := range map[string]event.Type{
		`{"type":"a.b","time":"2030-01-02T12:00:00Z"}`: "a.b", `[]`: event.Unreadable,
	} {
		if e, err := read(5, json.RawMessage(data)); err != nil || e.Type != want || e.Seq != 5 {
			t.Errorf("%s: %+v, %v", data, e, err)
		}
	}
}
