package event

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// maxLookBack is the maximum number of events that Last searches. Older events are not what a
// caller of Last is looking for.
const maxLookBack = 100_000

// Last returns the last n events that match, in order, and the number at which the log ended. It
// reads backwards from the end, so its cost does not depend on the length of the log. It searches
// at most 100,000 events.
func (l *Log) Last(ctx context.Context, n int, match func(Event) bool) (last []Event, end uint64, err error) {
	pruned, err := l.pruned(ctx)
	if err != nil {
		return nil, 0, err
	}
	end, err = l.end(ctx, pruned)
	if err != nil {
		return nil, 0, fmt.Errorf("looking for the end of the events: %w", err)
	}
	for until := end; until > pruned && len(last) < n && end-until < maxLookBack; {
		after := max(pruned, until-min(until, readStep))
		page, err := l.between(ctx, after, until)
		if err != nil {
			return nil, 0, fmt.Errorf("reading events after %d: %w", after, err)
		}
		for _, e := range slices.Backward(page) {
			if len(last) < n && match(e) {
				last = append(last, e) // newest first
			}
		}
		until = after
	}
	slices.Reverse(last)
	return last, end, nil
}

// between returns the events with numbers greater than after, up to until.
func (l *Log) between(ctx context.Context, after, until uint64) ([]Event, error) {
	var events []Event
	for {
		// A page of large events may be short.
		records, _, err := l.store.Scan(ctx, l.prefix, store.SequenceKey(l.prefix, after), int(until-after))
		if err != nil {
			return nil, err
		}
		last := after
		for _, e := range l.decodeAll(records, after) {
			if e.Seq > until {
				return events, nil
			}
			events, last = append(events, e), e.Seq
		}
		if last == after || last == until {
			return events, nil
		}
		after = last
	}
}

// end returns the number of the last event, or from if there is none after it. A store only
// returns the records after a key, so it searches with steps that double, and then bisects.
func (l *Log) end(ctx context.Context, from uint64) (uint64, error) {
	var high uint64
	step := uint64(readStep)
	for {
		high = from + min(step, math.MaxUint64-from)
		next, err := l.following(ctx, high)
		if err != nil {
			return 0, err
		}
		if next == 0 {
			break
		}
		from, step = next, 2*step
	}
	for from < high { // nothing comes after high
		middle := from + (high-from)/2
		next, err := l.following(ctx, middle)
		if err != nil {
			return 0, err
		}
		if next == 0 {
			high = middle
		} else {
			from = next
		}
	}
	return from, nil
}

// before returns the number of an event before which nothing has happened at a time or later. It
// bisects, since events are written in the order in which they happen. Those that a daemon notices
// late, such as exits while none ran, have any order, and happened before they were written.
func (l *Log) before(ctx context.Context, at time.Time) (uint64, error) {
	low, err := l.pruned(ctx)
	if err != nil {
		return 0, err
	}
	high, err := l.end(ctx, low)
	if err != nil {
		return 0, fmt.Errorf("looking for the end of the events: %w", err)
	}
	for low < high {
		middle := low + (high-low)/2
		next, err := l.punctual(ctx, middle)
		if err != nil {
			return 0, fmt.Errorf("looking for the events since %s: %w", at.Format(time.RFC3339), err)
		}
		if next != nil && next.Time.Before(at) {
			low = next.Seq
		} else {
			high = middle
		}
	}
	return low, nil
}

// punctual returns the first event after seq that was written when it happened, nil if there is none.
func (l *Log) punctual(ctx context.Context, seq uint64) (*Event, error) {
	for page := 1; ; page = readStep { // late events are rare, and come together
		records, _, err := l.store.Scan(ctx, l.prefix, store.SequenceKey(l.prefix, seq), page)
		if err != nil || len(records) == 0 {
			return nil, err
		}
		for _, e := range l.decodeAll(records, 0) {
			if e.Type != Unreadable && !e.late() {
				return &e, nil
			}
		}
		last, ok := store.ParseSequenceKey(l.prefix, records[len(records)-1].Key)
		if !ok {
			return nil, fmt.Errorf("%w: %q is among the events", store.ErrInvalid, records[len(records)-1].Key)
		}
		seq = last
	}
}

// late reports whether an event was written later than it happened.
func (e *Event) late() bool {
	var data Late
	return e.Decode(&data) == nil && data.Late
}

// following returns the number of the first event after seq, or 0 if there is none.
func (l *Log) following(ctx context.Context, seq uint64) (uint64, error) {
	records, _, err := l.store.Scan(ctx, l.prefix, store.SequenceKey(l.prefix, seq), 1)
	if err != nil || len(records) == 0 {
		return 0, err
	}
	n, ok := store.ParseSequenceKey(l.prefix, records[0].Key)
	if !ok {
		return 0, fmt.Errorf("%w: %q is among the events", store.ErrInvalid, records[0].Key)
	}
	return n, nil
}
