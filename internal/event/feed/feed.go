// Package feed lets clients of a daemon read and follow its event log.
package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
)

// events is the route of the event log.
var events = api.Stream[request, event.Event]{
	Path: "/events", Number: func(e event.Event) uint64 { return e.Seq }, Read: read,
	ID: "events", Summary: "What has happened",
	Doc: "Events in the order of their numbers. Each message has the number as its id: a client that sends the last " +
		"one back in Last-Event-ID misses none and gets none twice.",
	Returns: "A stream of events.",
}

// request is the query of a reader.
type request struct {
	After  uint64   `json:"after,omitempty" default:"0" doc:"Only events with a greater number."`
	Epoch  string   `json:"epoch,omitempty" doc:"The epoch in which after counts, as events have it. If the log has another one, an events.reset comes first, and then all events that are kept."`
	Last   uint64   `json:"last,omitempty" default:"0" maximum:"10000" doc:"Of the events that are there, only the last so many; 0 is all."`
	Types  []string `json:"type,omitempty" doc:"Only events of this type; a pattern such as agent.* is possible, and so are several. One that no event can have is refused."`
	Path   string   `json:"path,omitempty" doc:"Only events of this node and those below it."`
	Since  string   `json:"since,omitempty" doc:"Only events that have happened at this time or later: a time of RFC 3339."`
	Follow bool     `json:"follow,omitempty" doc:"Wait for more."`
	// LastEventID is the number of the last event that a client has received, however its first
	// request began.
	LastEventID *uint64 `json:"Last-Event-ID,omitempty" in:"header" doc:"As after, and stronger."`
}

// Handle registers the route of the event log with a server. log returns the events of a query.
func Handle(s *api.Server, log func(context.Context, event.Query) iter.Seq2[event.Event, error]) {
	events.Handle(s, func(ctx context.Context, r request) iter.Seq2[event.Event, error] {
		q := event.Query{
			Filter: event.Filter{Types: slices.DeleteFunc(r.Types, isEmpty), Path: r.Path},
			After:  r.After, Epoch: r.Epoch, Last: int(r.Last), Follow: r.Follow,
		}
		if r.LastEventID != nil {
			q.After, q.Last = *r.LastEventID, 0
		}
		err := q.CheckTypes()
		if r.Since != "" && err == nil {
			q.Since, err = time.Parse(time.RFC3339, r.Since)
		}
		if err != nil {
			return func(yield func(event.Event, error) bool) {
				yield(event.Event{}, fmt.Errorf("%w: %w", api.ErrInvalid, err))
			}
		}
		return log(ctx, q)
	})
}

// Events yields the events of a query from the daemon of a client. A query with Follow survives
// restarts of the daemon: see api.Stream. It neither misses nor repeats an event.
func Events(ctx context.Context, c *api.Client, q event.Query) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r := request{
			After: q.After, Epoch: q.Epoch, Last: uint64(max(0, q.Last)),
			Types: q.Types, Path: q.Path, Follow: q.Follow,
		}
		if !q.Since.IsZero() {
			r.Since = q.Since.Format(time.RFC3339Nano)
		}
		all := events.Open(ctx, c, r)
		if q.Follow {
			all = events.Follow(ctx, c, func() (request, error) { return r, nil })
		}
		for e, err := range all {
			if err == nil && !advance(&r, e) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// advance moves a request past an event, and reports whether the event is new.
func advance(r *request, e event.Event) bool {
	switch {
	case e.Type == event.EventsReset: // only a log that was created again goes back
	case e.Seq == 0: // it cannot be read
		return true
	case e.Seq <= r.After:
		return false
	}
	if r.After = e.Seq; e.Seq > 0 {
		r.Last = 0
	}
	if e.Epoch != "" {
		r.Epoch = e.Epoch
	}
	return true
}

// read decodes an event. If that fails, it returns an Unreadable event with the number.
func read(number uint64, data []byte) (e event.Event, _ error) {
	if err := json.Unmarshal(data, &e); err != nil {
		e = event.Event{Type: event.Unreadable, Message: err.Error()}
	}
	if number > 0 {
		e.Seq = number
	}
	return e, nil
}

// isEmpty reports whether a parameter has no value, as in a form.
func isEmpty(s string) bool { return s == "" }
