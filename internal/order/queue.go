package order

import (
	"container/heap"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// place is the position of an entry in a queue.
type place struct {
	at    time.Time
	after time.Duration
	index int // from 1; 0 if it is not in the queue
	due   bool
}

// queue is a heap of entries by the time of the next decision about them.
type queue struct {
	byWall bool
	all    []*entry
}

func (q *queue) of(en *entry) *place {
	if q.byWall {
		return &en.wall
	}
	return &en.up
}

func (q *queue) Len() int { return len(q.all) }
func (q *queue) Less(i, j int) bool {
	if q.byWall {
		return q.all[i].wall.at.Before(q.all[j].wall.at)
	}
	return q.all[i].up.after < q.all[j].up.after
}
func (q *queue) Swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	q.of(q.all[i]).index, q.of(q.all[j]).index = i+1, j+1
}
func (q *queue) Push(x any) {
	en := x.(*entry)
	q.all = append(q.all, en)
	q.of(en).index = len(q.all)
}
func (q *queue) Pop() any {
	last := len(q.all) - 1
	en := q.all[last]
	q.all[last] = nil
	q.all = q.all[:last]
	q.of(en).index = 0
	return en
}

// set moves an entry to its place, or removes it.
func (q *queue) set(en *entry, at time.Time, in bool) {
	p := q.of(en)
	p.at = at
	switch {
	case in && p.index == 0:
		heap.Push(q, en)
	case in:
		heap.Fix(q, p.index-1)
	case p.index > 0:
		heap.Remove(q, p.index-1)
	}
}

// listeners finds the orders for which an event may count.
type listeners struct {
	exact    map[event.Type][]*entry
	patterns []*entry
}

func (l *listeners) add(en *entry) {
	g := en.o.Gate(Event)
	if g == nil {
		return
	}
	if l.exact == nil {
		l.exact = make(map[event.Type][]*entry)
	}
	for _, t := range g.On.Types {
		if strings.ContainsAny(t, `*?[\`) {
			l.patterns = append(l.patterns, en)
			return
		}
	}
	if len(g.On.Types) == 0 {
		l.patterns = append(l.patterns, en)
	}
	for _, t := range g.On.Types {
		if all := l.exact[event.Type(t)]; len(all) == 0 || all[len(all)-1] != en {
			l.exact[event.Type(t)] = append(all, en)
		}
	}
}

func (l *listeners) of(ev event.Event) []*entry {
	if len(l.patterns) == 0 {
		return l.exact[ev.Type]
	}
	return append(l.patterns[:len(l.patterns):len(l.patterns)], l.exact[ev.Type]...)
}
