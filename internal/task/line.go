package task

import (
	"container/heap"
	"slices"
	"strings"
)

// line is tasks of which the first one can be found, and any be taken out.
type line struct {
	entries []*entry
	less    func(a, b *entry) bool
}

func (l *line) Len() int           { return len(l.entries) }
func (l *line) Less(i, j int) bool { return l.less(l.entries[i], l.entries[j]) }
func (l *line) Swap(i, j int) {
	l.entries[i], l.entries[j] = l.entries[j], l.entries[i]
	l.entries[i].at, l.entries[j].at = i, j
}

// Push and Pop are part of heap.Interface.
func (l *line) Push(v any) {
	e := v.(*entry)
	e.in, e.at = l, len(l.entries)
	l.entries = append(l.entries, e)
}

func (l *line) Pop() any {
	last := len(l.entries) - 1
	e := l.entries[last]
	l.entries[last] = nil
	l.entries = l.entries[:last]
	e.in = nil
	return e
}

// maxHook bounds the tasks of each kind that are named.
const maxHook = 5

// head is the first tasks of a place, and counts those that are not among them.
func (x *Index) head(at Place, more *int) (all []Task) {
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
		all = append(all, x.shown(l.entries[i].Record))
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(l.entries) {
				next = append(next, child)
			}
		}
	}
	*more += len(l.entries) - len(all)
	return all
}

// Following returns the first tasks after an id, in the order of their ids.
func (s *State) Following(after string, most int) (all []*Record) {
	last := line{less: func(a, b *entry) bool { return a.ID > b.ID }} // the last of them at its head
	for id, e := range s.index.entries {
		switch {
		case id <= after:
		case len(last.entries) < most:
			heap.Push(&last, &entry{Record: e.Record})
		case id < last.entries[0].ID:
			last.entries[0].Record = e.Record
			heap.Fix(&last, 0)
		}
	}
	for _, e := range last.entries {
		all = append(all, e.Record)
	}
	slices.SortFunc(all, func(a, b *Record) int { return strings.Compare(a.ID, b.ID) })
	return all
}
