package task

import (
	"fmt"
	"iter"
	"slices"
)

// Filter selects tasks. The zero value selects all that are not closed.
type Filter struct {
	Statuses []Status // one of them; all but Closed if there are none
	All      bool     // closed ones, too
	Ready    bool     // only what can be claimed
	Active   bool     // only what can be claimed, and what is claimed
	Pool     string
	Assignee string   // or who has claimed it
	Labels   []string // all of them
	Type     string
	Parent   string
	Limit    int // the first so many, 0 for all
	// After is a task, in the order of the list: only those that come after it.
	After string
}

func (f Filter) check() error {
	for _, s := range f.Statuses {
		if !slices.Contains(Statuses(), s) {
			return fmt.Errorf("%w: the status is %.40q, expected %s%s", ErrInvalid, s, list(Statuses()),
				meant(string(s), Statuses()))
		}
	}
	return nil
}

// match reports whether a task is selected.
func (f Filter) match(x *Index, e *entry) bool {
	t := &e.Task
	ready := e.ready(x)
	switch {
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, e.effective(x.now)),
		len(f.Statuses) == 0 && !f.All && t.closed(),
		f.Ready && !ready,
		f.Active && !ready && t.Status != InProgress,
		f.Pool != "" && t.Pool != f.Pool,
		f.Assignee != "" && t.Assignee != f.Assignee && (t.Claim == nil || t.Claim.By != f.Assignee),
		f.Type != "" && t.Type != f.Type,
		f.Parent != "" && t.Parent != f.Parent:
		return false
	}
	for _, label := range f.Labels {
		if !slices.Contains(t.Labels, label) {
			return false
		}
	}
	return true
}

// ready counts ready tasks, next to their status.
const ready Status = "ready"

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
func (x *Index) selected(f Filter, after *Record) iter.Seq[*entry] {
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
