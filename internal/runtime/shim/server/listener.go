package server

import (
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// maxAhead bounds the bytes that agents may be ahead of a listener, in addition to the socket's
// buffer, before they have to wait.
const maxAhead = 256 << 10

// keepAhead bounds the size of a buffer that is reused.
const keepAhead = 16 << 10

// listener gets each line of the slot's agents. Unlike a view it misses nothing: while it is
// slow, the agents wait. When it is gone, they continue.
type listener struct {
	c       *conn
	partial bool // unfinished lines are wanted, too

	mu      sync.Mutex
	moved   sync.Cond // signals changes of the fields below
	open    bool      // the request was answered
	gone    bool
	lines   uint64 // number of lines so far
	pending []byte
	writing bool
	spare   []byte
}

// listenTo makes c the listener of the slot, and closes the previous one.
func (s *slot) listenTo(c *conn, partial bool) error {
	l := &listener{c: c, partial: partial}
	l.moved.L = &l.mu
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving { // nothing would end it
		return wire.ErrNotServed
	}
	delete(s.conns, c) // it gets no more messages
	c.mu.Lock()
	c.listener = l
	c.mu.Unlock()
	if before := s.output.listener.Swap(l); before != nil {
		before.c.close()
		before.leave()
	}
	return nil
}

// line passes on a line, and waits while too much is pending. An unfinished line does not wait,
// since another one will follow.
func (l *listener) line(incarnation uint64, line proc.Line) {
	l.mu.Lock()
	if line.Partial && (!l.partial || len(l.pending) >= keepAhead) {
		l.mu.Unlock()
		return
	}
	for len(l.pending) >= maxAhead && !l.gone {
		l.moved.Wait()
	}
	if !l.gone {
		l.pending = wire.AppendLine(l.pending, wire.Line{Incarnation: incarnation, Line: line})
		l.lines++
	}
	l.mu.Unlock()
	l.c.nudge()
}

// count returns the number of lines that were passed on.
func (l *listener) count() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

func (l *listener) begin() {
	l.mu.Lock()
	l.open = true
	l.mu.Unlock()
	l.c.nudge()
}

// leave releases all waiters.
func (l *listener) leave() {
	l.mu.Lock()
	l.gone, l.pending = true, nil
	l.mu.Unlock()
	l.moved.Broadcast()
}

// flush waits until everything was written, or the listener has left.
func (l *listener) flush() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for (len(l.pending) > 0 || l.writing) && !l.gone {
		l.moved.Wait()
	}
}

// write empties the buffer. The writer of the connection calls it. It may take as long as it
// needs.
func (l *listener) write() (ok bool) {
	for {
		l.mu.Lock()
		b := l.pending
		if !l.open || len(b) == 0 {
			l.mu.Unlock()
			return true
		}
		l.pending, l.spare, l.writing = l.spare[:0], nil, true
		l.mu.Unlock()
		l.moved.Broadcast()
		l.c.c.SetWriteDeadline(time.Time{})
		_, err := l.c.c.Write(b)
		l.mu.Lock()
		l.writing = false
		if cap(b) <= keepAhead || len(b) > keepAhead { // not after a flood
			l.spare = b
		}
		l.mu.Unlock()
		l.moved.Broadcast()
		if err != nil {
			return false
		}
	}
}
