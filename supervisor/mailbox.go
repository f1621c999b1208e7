package supervisor

import "sync"

// message is a message to a supervisor's loop. The set of types is closed; see handle.
type message interface{ message() }

// mailbox is an unbounded queue with many senders and one receiver. A send
// never blocks: an exiting child must not wait for its supervisor.
type mailbox struct {
	mu     sync.Mutex
	queue  []message
	closed bool
	wake   chan struct{} // holds a token while the queue may be non-empty
}

// put appends m. It reports false if the receiver has gone.
func (b *mailbox) put(m message) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.queue = append(b.queue, m)
	first := len(b.queue) == 1
	b.mu.Unlock()
	if first {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take waits until there are messages and returns all of them. It recycles
// spare, the result of the call before.
func (b *mailbox) take(spare []message) []message {
	clear(spare)
	if cap(spare) > 1<<12 {
		spare = nil // after a burst
	}
	for {
		b.mu.Lock()
		if len(b.queue) > 0 {
			q := b.queue
			b.queue = spare[:0]
			b.mu.Unlock()
			return q
		}
		b.mu.Unlock()
		<-b.wake
	}
}

// close refuses further messages and returns the queued ones.
func (b *mailbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	q := b.queue
	b.queue = nil
	return q
}
