package eval

import (
	"sync"
)

// mailbox holds the messages for an agent until it takes them. A supervised
// agent's is that of its place: what waits there when it fails is its
// successor's; the message at which it failed is gone.
type mailbox struct {
	mu     sync.Mutex
	queue  []Value
	head   int
	max    int
	closed bool
	paused bool
	idle   bool          // the agent waits, and knows whether it is paused
	ack    chan struct{} // closed when it knows; nil if no caller waits for that
	wake   chan struct{} // closed at the next change; made by a caller that waits
}

// put adds a message. It reports whether there is room, and whether the agent is running.
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

// wakeReceiver wakes all waiting callers. The mailbox is locked.
func (b *mailbox) wakeReceiver() {
	if b.wake != nil {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

// take is the oldest message, if there is one and the agent is not paused.
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

// pause returns what is closed when the agent has taken note, nil if it does
// something else at the moment.
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

// markIdle notes that the agent waits, and has done what it does when it is
// paused, or no longer is.
func (b *mailbox) markIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = true
	if b.ack != nil {
		close(b.ack)
		b.ack = nil
	}
}

// open makes a mailbox that was closed take messages again.
func (b *mailbox) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = false
}

// close empties the mailbox, and refuses what is sent from now on.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.queue, b.head = true, nil, 0
}

// each calls f for each message that waits.
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
