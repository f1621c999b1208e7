package task

import (
	"context"
	"iter"
	"slices"
)

// ready is what ready tasks are counted by, next to their status.
const ready Status = "ready"

// Count is how many tasks a filter selects, without regard to its Limit and After.
// What selects by status and pool alone is not looked for: it is counted already.
func (q *Queue) Count(ctx context.Context, f Filter) (n int, err error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	err = q.view(ctx, func(x *index) {
		n = 0
		if statuses := f.counted(); statuses != nil {
			for _, s := range statuses {
				n += x.counts[tally{status: s, pool: f.Pool, all: f.Pool == ""}]
			}
			return
		}
		for range x.selected(f, nil) {
			n++
		}
	})
	return n, err
}

// counted are the statuses whose counts make up what a filter selects; nil if
// it selects by something else. What is open and what is deferred changes with
// the time, and is counted as it is stored.
func (f Filter) counted() []Status {
	stored := []Status{Open, InProgress, Blocked, Deferred, Parked}
	switch {
	case f.Assignee != "" || f.Type != "" || f.Parent != "" || len(f.Labels) > 0:
		return nil
	case f.Ready || f.Active:
		if len(f.Statuses) > 0 || f.All || f.Ready && f.Active {
			return nil
		}
		if f.Ready {
			return []Status{ready}
		}
		return []Status{ready, InProgress}
	case len(f.Statuses) > 0:
		if slices.Contains(f.Statuses, Open) || slices.Contains(f.Statuses, Deferred) {
			return nil
		}
		all := slices.Clone(f.Statuses)
		slices.Sort(all)
		return slices.Compact(all)
	case f.All:
		return append(stored, Closed)
	}
	return stored
}

// selected are the tasks that a filter selects, in the order of the list: those
// after one of them, all if that is nil.
func (x *index) selected(f Filter, after *record) iter.Seq[*entry] {
	all := x.live.after(after)
	if f.All || len(f.Statuses) > 0 && slices.Contains(f.Statuses, Closed) {
		all = merged(all, x.over.after(after))
	}
	return func(yield func(*entry) bool) {
		for e := range all {
			if f.match(x, e) && !yield(e) {
				return
			}
		}
	}
}
