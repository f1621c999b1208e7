package task

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/coppice-dev/coppice/internal/store"
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
func (f Filter) match(x *index, e *entry) bool {
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

// List returns tasks, those that come first first: by priority, then by age. The
// error is ErrConflict if the task that it is to begin after is gone.
func (q *Queue) List(ctx context.Context, f Filter) ([]Task, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	var all []Task
	var gone error
	err := q.view(ctx, func(x *index) {
		all, gone = all[:0], nil
		var after *record
		if f.After != "" {
			if after, gone = q.find(f.After); gone != nil {
				gone = fmt.Errorf("%w: %.100q is not there any more, and so is the place in the "+
					"list after it; begin anew", ErrConflict, f.After)
				return
			}
		}
		for e := range x.selected(f, after) {
			all = append(all, x.shown(e.record))
			if len(all) == f.Limit {
				return
			}
		}
	})
	return all, cmp.Or(err, gone)
}

// least are the first so many of some records in an order, sorted; all if most is 0.
func least(some iter.Seq[*record], most int, order func(a, b *record) int) (all []*record) {
	first := line{less: func(a, b *entry) bool { return order(a.record, b.record) > 0 }} // the last of them at its head
	for r := range some {
		switch {
		case most == 0:
			all = append(all, r)
		case len(first.entries) < most:
			heap.Push(&first, &entry{record: r})
		case order(r, first.entries[0].record) < 0:
			first.entries[0].record = r
			heap.Fix(&first, 0)
		}
	}
	for _, e := range first.entries {
		all = append(all, e.record)
	}
	slices.SortFunc(all, order)
	return all
}

// Find returns a task as it is listed.
func (q *Queue) Find(ctx context.Context, id string) (t Task, err error) {
	e := q.view(ctx, func(x *index) {
		var r *record
		if r, err = q.find(id); err == nil {
			t = x.shown(r)
		}
	})
	if e != nil {
		err = e
	}
	return t, err
}

// Detail is all there is of a task.
type Detail struct {
	_ struct{} `open:"true" doc:"All there is of a task."`

	Task     Task      `json:"task"`
	Text     string    `json:"text" doc:"What is to be done, at length."`
	Comments []Comment `json:"comments" doc:"Oldest first."`
	Children []string  `json:"children" doc:"Ids of its children, at most 200."`
}

// Get returns all there is of a task.
func (q *Queue) Get(ctx context.Context, id string) (d Detail, err error) {
	const some = 200
	var r *record
	var missing error
	err = q.view(ctx, func(x *index) {
		if r, missing = q.find(id); missing == nil {
			d.Task = x.shown(r)
			d.Children = slices.Sorted(maps.Keys(x.parts[r.ID]))
			d.Children = d.Children[:min(len(d.Children), some)]
		}
	})
	if err == nil {
		err = missing
	}
	if err != nil {
		return Detail{}, err
	}
	if d.Text, err = q.text(ctx, r); err != nil {
		return Detail{}, err
	}
	all, err := q.comments(ctx, d.Task.ID)
	for _, c := range all {
		d.Comments = append(d.Comments, c.Comment)
	}
	return d, err
}

// one is the value of one record, nil if there is none.
func (q *Queue) one(ctx context.Context, key string) ([]byte, error) {
	records, _, err := q.o.Store.Snapshot(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	for _, r := range records {
		if r.Key == key {
			return there(r), nil
		}
	}
	return nil, nil
}

// there is the value of a record; never nil, which stands for that there is none.
func there(r store.Record) []byte {
	if r.Value == nil {
		return []byte{}
	}
	return r.Value
}

// text is what is to be done: what was written here, or else what an import has brought.
func (q *Queue) text(ctx context.Context, r *record) (string, error) {
	value, err := q.one(ctx, q.textKey(r.ID))
	if err != nil || value != nil || !r.Brought {
		return string(value), err
	}
	key := q.broughtKey(r.ID)
	if value, err = q.one(ctx, key); err != nil {
		return "", err
	}
	var text string
	kept, err := parseObject(value)
	if err == nil {
		text, err = description(kept)
	}
	if err != nil {
		q.complain(key, err)
	}
	return text, nil
}

// comments are all that are stored of a task, oldest first.
func (q *Queue) comments(ctx context.Context, id string) ([]said, error) {
	var all []said
	for after := ""; ; {
		records, _, err := q.o.Store.Scan(ctx, q.commentsKey(id), after, 0)
		if err != nil {
			return nil, fmt.Errorf("reading the comments of %s: %w", id, err)
		}
		if len(records) == 0 {
			return all, nil
		}
		for _, r := range records {
			var c said
			if err := json.Unmarshal(r.Value, &c); err != nil {
				q.complain(r.Key, err)
				c.Text = "(this comment cannot be read)"
			}
			all = append(all, c)
		}
		after = records[len(records)-1].Key
	}
}

// Hook is what there is for an agent to do.
type Hook struct {
	Mine  []Task // in progress, by this incarnation
	Ready []Task // assigned to it
	Pool  []Task // the first of its pools
	More  int    // that are ready, and not named
}

// maxHook is how many tasks of each kind are named.
const maxHook = 5

// Hook says what there is for an incarnation to do.
func (q *Queue) Hook(ctx context.Context, who Who, pools []string) (h Hook, err error) {
	err = q.view(ctx, func(x *index) {
		h = Hook{}
		var mine []*record
		for id := range x.claimed[who.String()] {
			if r := x.get(id); holds(who, r) {
				mine = append(mine, r)
			}
		}
		slices.SortFunc(mine, (*record).before)
		for _, r := range mine {
			h.Mine = append(h.Mine, x.shown(r))
		}
		h.Ready = x.head(place{assignee: who.String()}, &h.More)
		for _, pool := range pools {
			if pool != "" {
				h.Pool = append(h.Pool, x.head(place{pool: pool}, &h.More)...)
			}
		}
	})
	return h, err
}

// head is the first tasks of a place, and counts those that are not among them.
func (x *index) head(at place, more *int) (all []Task) {
	l := x.ready[at]
	if l == nil {
		return nil
	}
	// The first of a heap are found by looking at what follows each of them.
	var next []int
	if len(l.entries) > 0 {
		next = append(next, 0)
	}
	for len(next) > 0 && len(all) < maxHook {
		best := 0
		for i := range next {
			if l.Less(next[i], next[best]) {
				best = i
			}
		}
		i := next[best]
		next = slices.Delete(next, best, best+1)
		all = append(all, x.shown(l.entries[i].record))
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(l.entries) {
				next = append(next, child)
			}
		}
	}
	*more += len(l.entries) - len(all)
	return all
}
