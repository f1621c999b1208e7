package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
)

// shownEvents is the number of events on a page.
const shownEvents = 200

// eventLine is an event as it is shown.
type eventLine struct {
	event.Event
	Tone, Stamp string
	Operator    string // who did it, if that is not the daemon
}

func eventLineOf(e event.Event) eventLine {
	l := eventLine{Event: e, Stamp: e.Time.UTC().Format(time.RFC3339)}
	switch e.Type.Severity() {
	case event.Good:
		l.Tone = "good"
	case event.Change:
		l.Tone = "busy"
	case event.Problem:
		l.Tone = "bad"
	default:
		l.Tone = "quiet"
	}
	if e.Actor != "supervisor" && e.Actor != "controller" {
		l.Operator = e.Actor
	}
	return l
}

// eventsData is what the page of events shows.
type eventsData struct {
	Type, Path, Since string
	Failures          bool
	Events            []eventLine
	Types             []string
	Older             string // the URL of the page before; empty if there is none
	Live              bool   // new events are added
}

// eventFilter returns the filter of a page of events.
func eventFilter(q query) (f event.Filter, err error) {
	f.Path = q.get("path")
	if t := q.get("type"); t != "" {
		f.Types = []string{t}
	} else if q.get("failures") != "" {
		f.Types = event.Problems()
	}
	if text := q.get("since"); text != "" {
		if f.Since, err = time.ParseInLocation("2006-01-02T15:04", text, time.Local); err != nil {
			return f, fmt.Errorf("%w: since is %.60q, expected a time such as 2026-11-29T07:30", api.ErrInvalid, text)
		}
	}
	return f, nil
}

// eventsPage shows events, the last one first.
func (s *pages) eventsPage(ctx context.Context, q query) (*page, error) {
	f, err := eventFilter(q)
	if err != nil {
		return nil, err
	}
	d := eventsData{
		Type: q.get("type"), Path: q.get("path"), Since: q.get("since"), Failures: q.get("failures") != "",
		Types: event.Types(), Live: q.get("before") == "",
	}
	p := &page{title: "Events", nav: "events", template: "events"}
	if d.Live {
		p.follow = &follow{list: "events", first: true, items: s.eventItems(f)}
	}
	if q.parts { // what comes is added to the list
		return p, nil
	}
	before := uint64(math.MaxUint64)
	if text := q.get("before"); text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: before is %.40q, expected the number of an event", api.ErrInvalid, text)
		}
	}
	found, more, err := s.eventsBefore(ctx, f, before)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(found) {
		d.Events = append(d.Events, eventLineOf(e))
	}
	if more {
		v := q.values
		v.Set("before", strconv.FormatUint(found[0].Seq, 10))
		d.Older = "/events?" + v.Encode()
	}
	p.data = d
	return p, nil
}

// eventsBefore returns the last events before a number that a filter selects, oldest first, and whether there are
// earlier ones.
func (s *pages) eventsBefore(
	ctx context.Context, f event.Filter, before uint64,
) (found []event.Event, more bool, err error) {
	query := event.Query{Filter: f, Last: shownEvents + 1}
	for span := uint64(1000); ; span *= 8 {
		found = found[:0]
		if before != math.MaxUint64 {
			query.Last, query.After = 0, before-min(before, span)
		}
		for e, err := range feed.Events(ctx, s.Client, query) {
			if err != nil {
				return nil, false, err
			}
			if e.Seq >= before {
				break
			}
			if e.Seq > 0 {
				found = append(found, e)
			}
		}
		if before == math.MaxUint64 || query.After == 0 || len(found) > shownEvents {
			break
		}
	}
	if extra := len(found) - shownEvents; extra > 0 {
		return found[extra:], true, nil
	}
	return found, false, nil
}

// eventItems yields the events that come after one.
func (s *pages) eventItems(f event.Filter) func(context.Context, since) iter.Seq2[item, error] {
	return func(ctx context.Context, after since) iter.Seq2[item, error] {
		return func(yield func(item, error) bool) {
			for e, err := range feed.Events(ctx, s.Client, event.Query{Filter: f, After: after.event, Follow: true}) {
				if err != nil {
					yield(item{}, err)
					return
				}
				html, err := s.renderPart("event", eventLineOf(e))
				if !yield(item{html: html, event: e.Seq}, err) || err != nil {
					return
				}
			}
		}
	}
}

// eventData is what the page of one event shows.
type eventData struct {
	eventLine
	JSON           string
	Before, Behind uint64
}

// eventPage shows one event.
func (s *pages) eventPage(ctx context.Context, q query) (*page, error) {
	number, err := strconv.ParseUint(q.rest, 10, 64)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("%w: %.40q is not the number of an event", api.ErrInvalid, q.rest)
	}
	for e, err := range feed.Events(ctx, s.Client, event.Query{After: number - 1}) {
		if err != nil {
			return nil, err
		}
		if e.Seq == 0 || e.Seq > number {
			break
		}
		if e.Seq < number {
			continue
		}
		d := eventData{eventLine: eventLineOf(e), Before: number - 1, Behind: number + 1}
		var indented bytes.Buffer
		if len(e.Data) > 0 && json.Indent(&indented, e.Data, "", "  ") == nil {
			d.JSON = indented.String()
		}
		return &page{title: fmt.Sprintf("Event %d", number), nav: "events", template: "one-event", data: d}, nil
	}
	return nil, fmt.Errorf("%w: event %d; the log may have removed it, or not have it yet", api.ErrNotFound, number)
}
