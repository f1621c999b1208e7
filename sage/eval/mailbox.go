package eval

import (
	"sync"
)

// mailbox holds the messages for an agent until it takes them. The mailbox of a supervised agent
// outlives its incarnations: waiting messages go to the next one, but the message at which an
// incarnation failed is lost.
type mailbox struct {
	mu     sync.Mutex
	queue  []Value
	head   int
	max    int
	closed bool
	paused bool
	idle   bool          // the agent waits, and has noticed whether it is paused
	ack    chan struct{} // closed when the agent notices; nil if no caller waits for that
	wake   chan struct{} // receives at a change; made by the first take
}

// put adds a message. It reports whether the message fits and whether the mailbox is open.
func (b *mailbox) put(v Value) (fits, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return true, false
	}
	if len(b.queue)-b.head >= b.max {
		return false, true
	}
	b.queue = append(b.queue, v)
	b.wakeReceiver()
	return true, true
}

// wakeReceiver wakes the agent if it waits. The mailbox must be locked.
func (b *mailbox) wakeReceiver() {
	if b.wake != nil {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

// take returns the oldest message, unless there is none or the agent is paused. wake receives at
// the next change.
func (b *mailbox) take() (v Value, found, paused bool, wake <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = false
	if b.wake == nil {
		b.wake = make(chan struct{}, 1)
	}
	if b.paused || b.head == len(b.queue) {
		return Value{}, false, b.paused, b.wake
	}
	v = b.queue[b.head]
	b.queue[b.head] = Value{}
	b.head++
	if b.head == len(b.queue) {
		b.queue, b.head = b.queue[:0], 0
		if cap(b.queue) > 64 {
			b.queue = nil
		}
	} else if b.head > 64 && b.head > len(b.queue)/2 {
		n := copy(b.queue, b.queue[b.head:])
		clear(b.queue[n:])
		b.queue, b.head = b.queue[:n], 0
	}
	return v, true, false, b.wake
}

// pause pauses or resumes the agent. The returned channel is closed when the agent has noticed. It
// is nil if the agent is busy.
func (b *mailbox) pause(is bool) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = is
	b.wakeReceiver()
	if !b.idle {
		return nil
	}
	if b.ack == nil {
		b.ack = make(chan struct{})
	}
	return b.ack
}

// markIdle notes that the agent waits and has run its on pause or on resume.
func (b *mailbox) markIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = true
	if b.ack != nil {
		close(b.ack)
		b.ack = nil
	}
}

// open makes a closed mailbox take messages again.
func (b *mailbox) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = false
}

// close empties the mailbox and refuses messages from now on.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.queue, b.head = true, nil, 0
}

// each calls f for each waiting message.
func (b *mailbox) each(f func(Value)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.queue[b.head:] {
		f(v)
	}
}
