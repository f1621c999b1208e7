package task

import (
	"container/heap"
	"slices"
	"strings"
)

// taskHeap is a heap of tasks that implements heap.Interface.
type taskHeap struct {
	entries []*entry
	less    func(a, b *entry) bool
}

func (h *taskHeap) Len() int           { return len(h.entries) }
func (h *taskHeap) Less(i, j int) bool { return h.less(h.entries[i], h.entries[j]) }
func (h *taskHeap) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	h.entries[i].pos, h.entries[j].pos = i, j
}

// Push adds an entry and tells it its position.
func (h *taskHeap) Push(v any) {
	e := v.(*entry)
	e.heap, e.pos = h, len(h.entries)
	h.entries = append(h.entries, e)
}

func (h *taskHeap) Pop() any {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = nil
	h.entries = h.entries[:last]
	e.heap = nil
	return e
}

// maxHookTasks bounds the tasks that Hook lists for one place.
const maxHookTasks = 5

// firstReady returns the first ready tasks of a place, and adds the number of the others to more.
func (x *Index) firstReady(at Place, more *int) (all []Task) {
	h := x.ready[at]
	if h == nil {
		return nil
	}
	// The next smallest element of a heap is always a child of an earlier one.
	var next []int
	if len(h.entries) > 0 {
		next = append(next, 0)
	}
	for len(next) > 0 && len(all) < maxHookTasks {
		best := 0
		for i := range next {
			if h.Less(next[i], next[best]) {
				best = i
			}
		}
		i := next[best]
		next = slices.Delete(next, best, best+1)
		all = append(all, x.view(h.entries[i].Record))
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(h.entries) {
				next = append(next, child)
			}
		}
	}
	*more += len(h.entries) - len(all)
	return all
}

// Following returns the first tasks after an id, in the order of their ids.
func (s *State) Following(after string, most int) (all []*Record) {
	last := taskHeap{less: func(a, b *entry) bool { return a.ID > b.ID }} // the largest id is at its head
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
