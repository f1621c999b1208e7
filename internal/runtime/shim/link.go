package shim

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// link connects a client to a slot. Answers and messages about the state of the slot are handled in
// order, and independent of other slots.
type link struct {
	conn *conn
	name string            // of the slot
	run  func(func()) bool // runs a function in the background

	mu      sync.Mutex
	waiting []func()            // what is to be handled; nothing is before listen is called
	running bool                // a goroutine handles it
	open    bool                // listen was called
	update  func(*wire.Message) // gets each message about the state; may be nil
	lost    func()              // called when the link is closed; may be nil
	err     error
	closed  chan struct{}
}

// newLink returns a link to a slot that its shim may serve or not: a Hello or Serve tells.
func (c *conn) newLink(name string, run func(func()) bool) (*link, error) {
	l := &link{conn: c, name: name, run: run, closed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if c.own {
		name = ""
	}
	c.links[name] = append(c.links[name], l)
	return l, nil
}

// maxWaiting bounds the messages that wait for listen, and behind a slow update.
const maxWaiting = 4096

// do runs f after everything before it.
func (l *link) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if len(l.waiting) >= maxWaiting {
		go l.close(fmt.Errorf("%w: its messages were not read", errLinkLost))
		return
	}
	l.waiting = append(l.waiting, f)
	l.start()
}

// start makes a goroutine handle what waits. Needs mu.
func (l *link) start() {
	if l.open && !l.running && len(l.waiting) > 0 {
		l.running = l.run(l.handle)
	}
}

func (l *link) handle() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.waiting, l.running = nil, false
			l.mu.Unlock()
			return
		}
		f := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		f()
	}
}

// deliver passes on a message about the state.
func (l *link) deliver(m *wire.Message) {
	l.do(func() {
		l.mu.Lock()
		update := l.update
		l.mu.Unlock()
		if update != nil {
			update(m)
		}
	})
}

// listen sets the function that gets messages about the state, beginning with those since the link
// exists. nil ignores them.
func (l *link) listen(update func(*wire.Message)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update, l.open = update, true
	l.start()
}

// onClose sets the function that is called in the background when the link is closed, which may
// have happened already.
func (l *link) onClose(lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		l.run(lost)
		return
	}
	l.lost = lost
}

// close ends the link. The connection stays for others, if it is shared.
func (l *link) close(why error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = why
	close(l.closed)
	if l.lost != nil {
		l.run(l.lost)
	}
	l.mu.Unlock()
	c := l.conn
	c.mu.Lock()
	name := l.name
	if c.own {
		name = ""
	}
	left := slices.DeleteFunc(slices.Clone(c.links[name]), func(other *link) bool { return other == l })
	if len(left) == 0 {
		delete(c.links, name)
	} else {
		c.links[name] = left
	}
	c.mu.Unlock()
	if c.own {
		c.close(why)
	}
}

// cause returns why the link was closed.
func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *link) isLost() bool { return slots.IsClosed(l.closed) }

// call sends a request and returns its answer; an Error message is returned as an error. After
// errLinkLost, errSilent and the end of ctx it is unknown whether the request was carried out. The
// message is also one about the state, since an end may follow immediately.
func (l *link) call(ctx context.Context, m wire.Message, files ...*os.File) (*wire.Message, error) {
	if err := l.cause(); err != nil {
		return nil, err
	}
	if m.Name = l.name; l.conn.own {
		m.Name = ""
	}
	answer := make(chan *wire.Message, 1)
	forget, err := l.conn.call(m, func(m *wire.Message) {
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		if open {
			l.deliver(m)
			l.do(func() { answer <- m })
		} else { // nobody has listened yet
			answer <- m
		}
	}, files...)
	if err != nil {
		return nil, err
	}
	defer forget()
	return awaitAnswer(ctx, answer, l.closed, l.cause)
}
