package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// readStep bounds the events that are read from the store at a time.
const readStep = 256

// Read returns at most limit events (all if 0) that come after number after and
// match the filter, in order, and the cursor with which to go on: pass it as
// after. The cursor moves past events that do not match, too.
//
// Where events after the cursor are no longer kept, an EventsCompacted stands in
// their place; where the cursor is of another log (the store was made again), an
// EventsReset, and reading begins at the start.
func (l *Log) Read(ctx context.Context, after uint64, f Filter, limit int) ([]Event, uint64, error) {
	if err := f.Check(); err != nil {
		return nil, after, err
	}
	c := cursor{log: l, seq: after}
	var found []Event
	for {
		events, err := c.next(ctx)
		if err != nil || len(events) == 0 {
			return found, c.seq, err
		}
		for _, e := range events {
			if !f.Match(e) {
				continue
			}
			found = append(found, e)
			if limit > 0 && len(found) == limit {
				return found, e.Seq, nil
			}
		}
	}
}

// Follow yields the events that come after number after and match the filter,
// first those that are there, then those that come, each exactly once and in
// order, until ctx ends or the store fails; the error is the last thing yielded.
// To go on later, pass the Seq of the last event that was dealt with. What Read says
// of gaps holds here too.
func (l *Log) Follow(ctx context.Context, after uint64, f Filter) iter.Seq2[Event, error] {
	return l.from(ctx, after, f, true)
}

// from is Follow, which without follow ends with the last event that is stored.
func (l *Log) from(ctx context.Context, after uint64, f Filter, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := f.Check(); err != nil {
			yield(Event{}, err)
			return
		}
		c := cursor{log: l, seq: after}
		for {
			events, err := c.next(ctx)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if f.Match(e) && !yield(e, nil) {
					return
				}
			}
			if len(events) > 0 {
				continue
			}
			if !follow {
				return
			}
			// All that is stored has been read. What comes from now on is still in memory.
			for e, err := range c.watch(ctx) {
				if err != nil {
					yield(Event{}, err)
					return
				}
				if f.Match(e) && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Events yields what a query asks for, from Last, Read and Follow. Without
// Follow it ends with the last of those that were appended before. If After counts in
// another epoch, an EventsReset comes first, and then all that are kept.
func (l *Log) Events(ctx context.Context, q Query) iter.Seq2[Event, error] {
	return func(put func(Event, error) bool) {
		epoch := l.cfg.Epoch()
		yield := func(e Event, err error) bool {
			if err == nil {
				e.Epoch = epoch
			}
			return put(e, err)
		}
		if err := q.Check(); err != nil {
			yield(Event{}, err)
			return
		}
		// A store that takes no writes has what it has.
		if err := l.Sync(ctx); err != nil && ctx.Err() != nil {
			yield(Event{}, err)
			return
		}
		if q.Epoch != "" && q.Epoch != epoch && q.After > 0 {
			pruned, err := l.pruned(ctx)
			if err != nil {
				yield(Event{}, err)
				return
			}
			what := fmt.Sprintf("this is another log than the one of event %d (epoch %.40s, not %.40s)", q.After,
				epoch, q.Epoch)
			if !yield(reset(what, q.After, pruned), nil) {
				return
			}
			q.After = 0
		}
		if q.Last > 0 {
			last, end, err := l.Last(ctx, q.Last, func(e Event) bool { return e.Seq > q.After && q.Match(e) })
			for _, e := range last {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !q.Follow {
				return
			}
			q.After = max(q.After, end)
		}
		l.from(ctx, q.After, q.Filter, q.Follow)(yield)
	}
}

// cursor reads a log from one place on.
type cursor struct {
	log     *Log
	seq     uint64    // of the last event that was read
	rev     store.Rev // at which there was nothing after it
	checked bool      // whether seq is known to be of this log
}

// next returns some events after the cursor and moves it; none if there are none yet.
func (c *cursor) next(ctx context.Context) ([]Event, error) {
	events, err := c.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading events after %d: %w", c.seq, err)
	}
	if len(events) > 0 {
		c.seq = events[len(events)-1].Seq
	}
	return events, nil
}

func (c *cursor) read(ctx context.Context) ([]Event, error) {
	l := c.log
	if c.seq == 0 && !c.checked { // who wants all that is kept misses nothing of what is not
		pruned, err := l.pruned(ctx)
		if err != nil {
			return nil, err
		}
		c.seq, c.checked = pruned, true
	}
	records, rev, err := l.store.Scan(ctx, l.prefix, store.SequenceKey(l.prefix, c.seq), readStep)
	if err != nil {
		return nil, err
	}
	c.rev = rev
	events := l.decodeAll(records, 0)
	switch {
	case len(events) == 0 && !c.checked:
		c.checked = true
		return c.checkCursor(ctx)
	case len(events) > 0 && events[0].Seq != c.seq+1:
		gap, err := c.gap(ctx, events[0].Seq)
		if gap != nil || err != nil {
			return gap, err // the events themselves are read by the next call
		}
	}
	c.checked = c.checked || len(events) > 0
	return events, nil
}

// gap returns the event that stands for those between the cursor and next,
// none if there never were any. It is asked after the events were read, so that all
// that was removed before is known.
func (c *cursor) gap(ctx context.Context, next uint64) ([]Event, error) {
	pruned, err := c.log.pruned(ctx)
	if err != nil {
		return nil, err
	}
	until := min(pruned, next-1)
	if until <= c.seq {
		if c.checked {
			return []Event{missing(c.seq+1, next-1)}, nil
		}
		return nil, nil
	}
	return []Event{Event{
		Seq: until, Time: time.Now().UTC(), Type: EventsCompacted,
		Message: fmt.Sprintf("events %d to %d are no longer kept", c.seq+1, until),
	}.With(Compacted{After: c.seq, Until: until})}, nil
}

// checkCursor finds out why there is nothing after a cursor that was given from
// outside: it is at the end of the log, before events that are all removed,
// or of another log.
func (c *cursor) checkCursor(ctx context.Context) ([]Event, error) {
	l := c.log
	records, _, err := l.store.Scan(ctx, l.prefix, store.SequenceKey(l.prefix, c.seq-1), 1)
	if err != nil {
		return nil, err
	}
	pruned, err := l.pruned(ctx)
	if err != nil {
		return nil, err
	}
	if len(records) > 0 || c.seq == pruned {
		return nil, nil
	}
	if c.seq < pruned {
		return c.gap(ctx, pruned+1)
	}
	return []Event{reset(fmt.Sprintf("the log has no event %d: it was made again", c.seq), c.seq, pruned)}, nil
}

// reset tells a reader that the event after which it reads is not of this log.
func reset(what string, after, pruned uint64) Event {
	return Event{
		Seq: pruned, Time: time.Now().UTC(), Type: EventsReset, Message: what + "; reading from its start",
	}.With(Compacted{After: after, Until: pruned})
}

// watch yields the events after the cursor as they are written, without reading
// the store. It ends where that is not enough: after a gap, or when the reader was so
// slow that the store no longer has in memory what it missed.
func (c *cursor) watch(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for change, err := range c.log.store.Watch(ctx, c.log.prefix, c.rev) {
			switch {
			case errors.Is(err, store.ErrCompacted):
				return
			case err != nil:
				yield(Event{}, err)
				return
			case change.Rev <= c.rev:
				continue // a networked store may repeat a change
			}
			for _, r := range change.Put {
				seq, ok := store.ParseSequenceKey(c.log.prefix, r.Key)
				if !ok || seq <= c.seq {
					continue
				}
				if seq != c.seq+1 {
					return
				}
				c.seq = seq
				if !yield(decode(seq, r.Value), nil) {
					return
				}
			}
			c.rev = change.Rev
		}
	}
}

// decodeAll reads a page of events. Where some are missing between two, or after the
// one before the page unless that is 0, it says so in their place: the store leaves out
// what is damaged.
func (l *Log) decodeAll(records []store.Record, before uint64) (events []Event) {
	for _, r := range records {
		seq, ok := store.ParseSequenceKey(l.prefix, r.Key)
		if !ok {
			continue
		}
		if before > 0 && seq > before+1 {
			events = append(events, missing(before+1, seq-1))
		}
		events = append(events, decode(seq, r.Value))
		before = seq
	}
	return events
}

// missing stands for events that should be there.
func missing(first, last uint64) Event {
	return Event{
		Seq: last, Time: time.Now().UTC(), Type: Unreadable,
		Message: fmt.Sprintf("events %d to %d are lost: their records are damaged", first, last),
	}
}

// decode never fails: what cannot be read costs one event, not the log.
func decode(seq uint64, value []byte) Event {
	var e Event
	if err := json.Unmarshal(value, &e); err != nil {
		e = Event{Type: Unreadable, Message: err.Error(), Data: valid(value)}
	}
	e.Seq = seq
	return e
}
