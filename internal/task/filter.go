package task

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// check returns an ErrInvalid for a filter that selects nothing by mistake, and prepares it for match.
func (f *Filter) check() (err error) {
	for _, status := range f.Statuses {
		if err := checkOneOf("status", Status(status), Statuses()...); err != nil {
			return err
		}
	}
	if f.EndedSince != "" {
		if f.endedSince, err = time.Parse(time.RFC3339, f.EndedSince); err != nil {
			return fmt.Errorf("%w: ended_since: %w", ErrInvalid, err)
		}
	}
	return nil
}

// match reports whether the filter selects a task.
func (f Filter) match(x *Index, e *entry) bool {
	t := &e.Task
	ready := e.ready(x)
	switch {
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, string(e.effective(x.now))),
		len(f.Statuses) == 0 && !f.All && t.closed(),
		f.Ready && !ready,
		f.Active && !ready && t.Status != InProgress,
		f.Pool != "" && t.Pool != f.Pool,
		f.Assignee != "" && t.Assignee != f.Assignee && (t.Claim == nil || t.Claim.By != f.Assignee),
		f.Type != "" && t.Type != f.Type,
		f.EndedSince != "" && t.LastAttemptAt.Before(f.endedSince) && t.ClosedAt.Before(f.endedSince),
		f.Parent != "" && t.Parent != f.Parent:
		return false
	}
	return !slices.ContainsFunc(f.Labels, func(l string) bool { return !slices.Contains(t.Labels, l) })
}

// statusReady counts ready tasks, in addition to the count of their status.
const statusReady Status = "ready"

// countedStatuses returns the statuses whose counts add up to the number of selected tasks. It
// returns nil if the filter selects by anything else. Counts are of stored statuses, so they
// cannot tell open tasks from those deferred to a time.
func (f Filter) countedStatuses() []Status {
	stored := []Status{Open, InProgress, Blocked, Deferred, Parked}
	switch {
	case f.Assignee != "" || f.Type != "" || f.Parent != "" || f.EndedSince != "" || len(f.Labels) > 0:
		return nil
	case f.Ready || f.Active:
		if len(f.Statuses) > 0 || f.All || f.Ready && f.Active {
			return nil
		}
		if f.Ready {
			return []Status{statusReady}
		}
		return []Status{statusReady, InProgress}
	case len(f.Statuses) > 0:
		var all []Status
		for _, s := range Sorted(f.Statuses) {
			all = append(all, Status(s))
		}
		if slices.Contains(all, Open) || slices.Contains(all, Deferred) {
			return nil
		}
		return all
	case f.All:
		return append(stored, Closed)
	}
	return stored
}

// selected yields the tasks that a filter selects, in list order, starting after a task; all of
// them if that is nil.
func (x *Index) selected(f Filter, after *Record) iter.Seq[*entry] {
	all := x.unfinished.after(after)
	if f.All || len(f.Statuses) > 0 && slices.Contains(f.Statuses, string(Closed)) {
		all = merge(all, x.finished.after(after))
	}
	return func(yield func(*entry) bool) {
		for e := range all {
			if f.match(x, e) && !yield(e) {
				return
			}
		}
	}
}
