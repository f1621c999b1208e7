package supervisor

import (
	"sync"
	"time"
)

// MaxQueuedEvents is the largest number of events that wait for a slow hook.
const MaxQueuedEvents = 1 << 16

// hook calls a user's OnEvent from a goroutine of its own: OnEvent may be slow,
// and may call the supervisor, without blocking it.
type hook struct {
	fn      func(Event)
	mu      sync.Mutex
	queue   []Event
	lost    int    // dropped since the last EventsLost
	where   string // supervisor of one of them
	closed  bool
	wake    chan struct{}
	drained chan struct{} // closed when the last event has been passed on
}

// Buffered returns a hook that passes events to f from a goroutine of its own,
// in order: a slow f delays neither a supervisor nor the other consumers of its
// events. When more than MaxQueuedEvents wait, the newest are dropped, and an
// EventsLost event reports their number. drain waits until f has returned from
// the last event. The hook must not be called after drain.
func Buffered(f func(Event)) (hook func(Event), drain func()) {
	h := newHook(f)
	return func(e Event) { h.put([]Event{e}) }, func() { h.close(); <-h.drained }
}

func newHook(fn func(Event)) *hook {
	h := &hook{fn: fn, wake: make(chan struct{}, 1), drained: make(chan struct{})}
	go h.run()
	return h
}

// put queues events. The newest are dropped when too many wait.
func (h *hook) put(events []Event) {
	h.mu.Lock()
	room := max(0, MaxQueuedEvents-len(h.queue))
	if h.lost > 0 && room < MaxQueuedEvents/2 {
		room = 0 // make one gap, not many
	}
	n := min(room, len(events))
	if n > 0 && h.lost > 0 {
		h.queue = append(h.queue, h.gap())
	}
	h.queue = append(h.queue, events[:n]...)
	if h.lost += len(events) - n; h.lost > 0 {
		h.where = events[0].Header().Supervisor
	}
	h.mu.Unlock()
	h.signal()
}

// gap returns the event that reports the dropped events.
func (h *hook) gap() Event {
	e := EventsLost{EventHeader{Time: time.Now(), Supervisor: h.where, Type: SupervisorType}, h.lost}
	h.lost = 0
	return e
}

// close ends the goroutine once all events have been passed on.
func (h *hook) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.signal()
}

func (h *hook) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hook) run() {
	defer close(h.drained)
	var spare []Event
	for {
		h.mu.Lock()
		batch, closed := h.queue, h.closed
		h.queue = spare[:0]
		if closed && h.lost > 0 {
			batch = append(batch, h.gap())
		}
		h.mu.Unlock()
		for _, e := range batch {
			h.fn(e)
		}
		clear(batch)
		if spare = batch; cap(spare) > 1<<12 {
			spare = nil
		}
		if len(batch) == 0 {
			if closed {
				return
			}
			<-h.wake
		}
	}
}
