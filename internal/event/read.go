package event

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// readStep is the maximum number of events that are read from the store at a time.
const readStep = 256

// Read returns at most limit events (all if 0) that come after number after and match the filter,
// in order. It also returns the cursor to continue from: pass it as after. The cursor also moves
// past events that do not match.
//
// If events after the cursor are no longer kept, an EventsCompacted takes their place. If the
// cursor belongs to another log, because the store was created again, an EventsReset comes first,
// and reading starts from the beginning.
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

// Follow yields the events that come after number after and match the filter: first those that
// exist, then new ones. It yields each exactly once and in order, until ctx ends or the store
// fails; the error is the last item. To resume, pass the Seq of the last event that was
// processed. Gaps are reported as by Read.
func (l *Log) Follow(ctx context.Context, after uint64, f Filter) iter.Seq2[Event, error] {
	return l.from(ctx, after, f, true)
}

// from is Follow, except that without follow it ends after the last event that is stored.
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
			// All stored events have been read. New ones are still in memory.
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

// Events yields the events of a query. Without Follow it ends with the last event that was
// appended before the call. If After counts in another epoch, an EventsReset comes first,
// followed by all events that are kept.
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
		// If the store accepts no writes, yield what it has.
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
		if !q.Since.IsZero() {
			before, err := l.before(ctx, q.Since)
			if err != nil {
				yield(Event{}, err)
				return
			}
			q.After = max(q.After, before)
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

// cursor reads a log from one position on.
type cursor struct {
	log     *Log
	seq     uint64    // of the last event that was read
	rev     store.Rev // at which there was no event after seq
	checked bool      // whether seq is known to be of this log
}

// next returns some events after the cursor and moves it. It returns none if there are none yet.
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
	if c.seq == 0 && !c.checked { // a reader that starts at 0 misses no events that were pruned
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

// gap returns the event that stands for those between the cursor and next, or none if there never
// were any. It is called after the events were read, so it knows all that were pruned before.
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

// checkCursor is called when there is nothing after a cursor that was passed by a caller. The
// cursor is at the end of the log, before events that were all pruned, or belongs to another log.
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

// reset returns the event that tells a reader that its cursor does not belong to this log.
func reset(what string, after, pruned uint64) Event {
	return Event{
		Seq: pruned, Time: time.Now().UTC(), Type: EventsReset, Message: what + "; reading from its start",
	}.With(Compacted{After: after, Until: pruned})
}

// watch yields the events after the cursor as they are written, without reading the store. It
// ends after a gap, or when the reader was so slow that the store no longer has in memory what it
// missed.
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

// decodeAll decodes a page of events. It inserts an event for numbers that are missing between
// two records, or between before and the first record unless before is 0: the store skips damaged
// records.
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

// missing returns an event that stands for events that should exist.
func missing(first, last uint64) Event {
	return Event{
		Seq: last, Time: time.Now().UTC(), Type: Unreadable,
		Message: fmt.Sprintf("events %d to %d are lost: their records are damaged", first, last),
	}
}

// decode never fails: a record that cannot be read becomes an Unreadable event.
func decode(seq uint64, value []byte) Event {
	var e Event
	if err := e.UnmarshalJSON(value); err != nil {
		e = Event{Type: Unreadable, Message: err.Error(), Data: valid(value)}
	}
	e.Seq = seq
	return e
}
