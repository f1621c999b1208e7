package acp

import (
	"sync"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// queue passes events to a function that may be slow, in bounded memory.
type queue struct {
	each func(agentcli.Event)
	wake chan struct{} // has a value if there may be something to pass on

	mu      sync.Mutex
	items   []queued
	size    int // bytes of the items that were not passed on yet
	closed  bool
	dropped int
}

// queued is an event, or a mark that is closed when all before it were passed on.
type queued struct {
	event agentcli.Event
	size  int
	mark  chan struct{}
}

// maxQueued bounds the events that wait, in bytes. Half of it is for those that are neither text nor tools.
const maxQueued = 8 << 20

func newQueue(each func(agentcli.Event)) *queue {
	return &queue{each: each, wake: make(chan struct{}, 1)}
}

// add queues an event, or drops it if too much waits.
func (q *queue) add(e agentcli.Event) {
	if q.each == nil {
		return
	}
	size, limit := 512+len(e.Text)+len(e.Tool)+len(e.Failure.Text), maxQueued
	switch e.Kind {
	case agentcli.Message, agentcli.Tool, agentcli.Unknown:
		limit /= 2
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.size > 0 && q.size+size > limit {
		q.dropped++
		return
	}
	q.push(queued{event: e, size: size})
}

// mark returns a channel that is closed when all events so far were passed on.
func (q *queue) mark() <-chan struct{} {
	mark := make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.each == nil || q.closed {
		close(mark)
		return mark
	}
	q.push(queued{mark: mark})
	return mark
}

func (q *queue) push(i queued) {
	q.items, q.size = append(q.items, i), q.size+i.size
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close ends deliver after the events that wait.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// deliver passes events on until the queue is closed.
func (q *queue) deliver() {
	for range q.wake {
		q.mu.Lock()
		items, closed := q.items, q.closed
		q.items = nil
		q.mu.Unlock()
		for _, i := range items {
			if i.mark != nil {
				close(i.mark)
				continue
			}
			q.each(i.event)
			q.mu.Lock()
			q.size -= i.size
			q.mu.Unlock()
		}
		if closed {
			return
		}
	}
}

// missed returns the number of events that were dropped.
func (q *queue) missed() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}
