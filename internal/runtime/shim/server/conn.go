package server

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

const (
	maxConns     = 1024
	helloTimeout = 5 * time.Second  // for the hello
	writeTimeout = 10 * time.Second // for a client to take what was sent, before it is dropped
	maxUnsent    = 2 << 20          // bytes of messages, before a client is dropped
	keepUnsent   = 4 << 10          // bytes of a buffer that is reused
)

// conn is a client. One goroutine reads and another one writes.
type conn struct {
	shim *shim
	c    *net.UnixConn
	wake chan struct{} // there is something to write
	gone chan struct{}
	once sync.Once

	mu      sync.Mutex
	unsent  []byte // messages
	ending  bool   // nothing follows
	writing bool   // the writer writes
	raw     syscall.RawConn

	// What the writer writes besides messages; nil if there is none. Set by the reader, which reads them without mu.
	view     *view
	listener *listener

	slots map[*slot]*requests // that it has named; used by the reader
}

// send sends a message, or drops a client that does not read. It writes what the socket takes
// immediately: waking the writer takes longer, and an agent may be down meanwhile. The writer
// writes the rest.
func (c *conn) send(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unsent) == 0 && !c.writing && c.view == nil && c.listener == nil {
		if b = b[c.tryWrite(b):]; len(b) == 0 {
			return
		}
	}
	if len(c.unsent)+len(b) > maxUnsent {
		c.close()
		return
	}
	c.unsent = append(c.unsent, b...)
	c.nudge()
}

// end closes the connection when all messages are sent.
func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.nudge()
}

// isShared reports whether the connection is for output.
func (c *conn) isShared() bool {
	view, listener := c.shows()
	return view != nil || listener != nil
}

// shows returns what the writer writes besides messages.
func (c *conn) shows() (*view, *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view, c.listener
}

// tryWrite writes as much as possible without waiting.
func (c *conn) tryWrite(b []byte) (n int) {
	c.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b) // the writer gets an error again
		return true
	})
	return max(0, n)
}

// hungUp reports whether the client has hung up, although its reader may not have noticed that
// yet.
func (c *conn) hungUp() (yes bool) {
	err := c.raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP is always reported
		_, err := unix.Poll(p, 0)
		yes = err == nil && p[0].Revents&unix.POLLHUP != 0
	})
	return yes || err != nil
}

func (c *conn) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.gone)
		c.c.Close()
	})
}

func (c *conn) write() {
	defer c.close()
	for {
		select {
		case <-c.wake:
			if !c.flush() || !c.writeMore() {
				return
			}
		case <-c.gone:
			return
		}
	}
}

// flush writes the messages that were sent, several at once. It reports false if nothing follows.
func (c *conn) flush() bool {
	for {
		c.mu.Lock()
		b := c.unsent
		c.unsent, c.writing = nil, len(b) > 0
		ending := c.ending
		c.mu.Unlock()
		if len(b) == 0 {
			return !ending
		}
		c.c.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := c.c.Write(b)
		c.c.SetWriteDeadline(time.Time{})
		c.mu.Lock()
		c.writing = false
		if len(c.unsent) == 0 && cap(b) <= keepUnsent {
			c.unsent = b[:0]
		}
		c.mu.Unlock()
		if err != nil {
			return false
		}
	}
}

// writeMore writes the output for a view or a listener.
func (c *conn) writeMore() (more bool) {
	view, listener := c.shows()
	switch {
	case listener != nil:
		return listener.write()
	case view == nil:
		return true
	}
	for {
		m, last := view.slot.output.take(view)
		if m != nil {
			b, err := wire.Encode(m)
			if err != nil {
				return false
			}
			c.c.SetWriteDeadline(time.Now().Add(writeTimeout))
			_, err = c.c.Write(b)
			c.c.SetWriteDeadline(time.Time{})
			if err != nil {
				return false
			}
		}
		switch {
		case last:
			return false
		case m == nil:
			return true
		case !c.flush():
			return false
		}
	}
}

func (c *conn) answer(request *wire.Message, st *wire.State, err error) {
	m := &wire.Message{Type: wire.OK, ID: request.ID, Incarnation: request.Incarnation}
	switch {
	case err != nil:
		m.Type, m.Failure = wire.Error, wire.NewFailure(err)
	case st != nil:
		m.Type, m.State, m.Incarnation = wire.Status, st, st.Incarnation
	}
	if b, err := wire.Encode(m); err == nil {
		c.send(b)
	}
}

// serve handles one client. Whatever it sends affects only its own connection.
func (p *shim) serve(uc *net.UnixConn) {
	c := &conn{
		shim: p, c: uc, wake: make(chan struct{}, 1), gone: make(chan struct{}), slots: make(map[*slot]*requests),
	}
	err := wire.CheckClient(uc, p.dir)
	if err == nil {
		c.raw, err = uc.SyscallConn()
	}
	if err != nil || !p.addConn(c) {
		uc.Close()
		return
	}
	go c.write()

	files := &fileReader{c: uc}
	err = c.handleRequests(files)
	files.close()
	if errors.Is(err, io.EOF) {
		c.await()
	} else if c.listener == nil {
		c.answer(&wire.Message{}, nil, err)
	}
	c.end()
	<-c.gone
	c.await()
	p.removeConn(c)
	for s := range c.slots {
		s.leftBy(c)
	}
	p.restoreFiles()
	p.releaseMemory()
}

// await waits for the requests that are being handled.
func (c *conn) await() {
	for _, r := range c.slots {
		r.wait()
	}
}

// handleRequests answers the requests of a client until the connection ends. The error is never
// nil.
func (c *conn) handleRequests(files *fileReader) error {
	r := wire.NewReader(files)
	c.c.SetReadDeadline(time.Now().Add(helloTimeout))
	m, err := r.Read()
	if err == nil && m.Type != wire.Hello {
		err = fmt.Errorf("the first message is %.40q instead of %s", m.Type, wire.Hello)
	}
	if err == nil {
		err = c.c.SetReadDeadline(time.Time{})
	}
	named := ""
	if err == nil {
		named = m.Name
	}
	for ; err == nil; m, err = r.Read() {
		if m.Name == "" {
			m.Name = named // the subject of the whole connection
		}
		switch {
		case c.listener != nil:
			return fmt.Errorf("unexpected %.40q from a listener", m.Type)
		case c.view != nil:
			err = c.view.slot.handleInput(c, m)
		case m.Type == wire.Hello && m.V != wire.Version:
			err = fmt.Errorf("this shim speaks version %d of the protocol, not %d", wire.Version, m.V)
		case m.Name == "":
			c.shim.handle(c, m)
		default:
			c.handle(m, files)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// handle handles a request about a slot. Only what takes no time is answered before it returns.
func (c *conn) handle(m *wire.Message, files *fileReader) {
	if m.Type == wire.Serve {
		c.forgetLeft()
		lock, err := files.take()
		if err == nil {
			err = c.shim.take(m.Name, m.Most, lock)
		}
		if err != nil {
			c.answer(m, nil, err)
			return
		}
	}
	s := c.shim.slot(m.Name)
	if s == nil {
		c.answer(m, nil, wire.ErrNotServed)
		return
	}
	if c.slots[s] == nil {
		c.slots[s] = newRequests(func(m *wire.Message) {
			st, err := s.handle(c, m)
			c.answer(m, st, err)
		})
	}
	switch m.Type {
	case wire.Hello, wire.Serve:
		s.greet(c, m)
	case wire.Look:
		st, err := s.handle(c, m)
		c.answer(m, st, err)
	case wire.Attach, wire.Follow, wire.Unfinished, wire.Listen:
		_, err := s.handle(c, m)
		c.answer(m, nil, err)
		if c.view != nil {
			s.output.open(c.view)
		}
		if c.listener != nil {
			c.listener.begin()
		}
	default:
		if err := c.slots[s].add(m); err != nil {
			c.answer(m, nil, err)
		}
	}
}

// forgetLeft forgets the slots that the shim has left.
func (c *conn) forgetLeft() {
	maps.DeleteFunc(c.slots, func(s *slot, r *requests) bool { return c.shim.slot(s.name) != s && r.idle() })
}

// greet makes a client one of the slot, and answers with its state.
func (s *slot) greet(c *conn, m *wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		c.answer(m, nil, wire.ErrNotServed)
		return
	}
	s.conns[c] = struct{}{}
	c.answer(m, s.snapshot(), nil)
}

// leftBy is called when a client has hung up.
func (s *slot) leftBy(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	if c.view != nil {
		s.output.drop(c.view)
	}
	if c.listener != nil {
		s.output.listener.CompareAndSwap(c.listener, nil)
		c.listener.leave()
	}
	s.closeIfAbandoned()
}

// handle handles one request.
func (s *slot) handle(c *conn, m *wire.Message) (*wire.State, error) {
	switch m.Type {
	case wire.Look:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.snapshot(), nil
	case wire.Start:
		return s.start(c, m)
	case wire.Quit:
		return nil, s.quit()
	case wire.Listen:
		return nil, s.listenTo(c, m.Partial)
	}
	run, err := s.current(m.Incarnation)
	if err != nil {
		return nil, err
	}
	switch m.Type {
	case wire.Stop:
		run.stop(time.Duration(m.Grace))
		return nil, nil
	case wire.Kill:
		run.kill()
		return nil, nil
	case wire.Attach, wire.Follow, wire.Unfinished:
		return nil, s.output.watch(c, run, m)
	}
	<-run.started
	if run.process == nil {
		return nil, runtime.ErrEnded
	}
	switch m.Type {
	case wire.Signal:
		if m.Signal <= 0 || m.Signal > 64 {
			return nil, fmt.Errorf("there is no signal %d", m.Signal)
		}
		return nil, requestError(run.process.Signal(syscall.Signal(m.Signal)))
	case wire.Ready:
		if run.notify != nil {
			run.notify.Ready()
		}
		return nil, nil
	case wire.Write:
		s.output.log.Touch()
		return nil, run.write(m.Data)
	case wire.Resize:
		return nil, s.resize(run, m)
	}
	return nil, fmt.Errorf("unknown request %.40q", m.Type)
}

// handleInput handles a message of an attached client.
func (s *slot) handleInput(c *conn, m *wire.Message) error {
	run, err := s.current(m.Incarnation)
	if err != nil {
		return nil // the client learns that from the end of the output
	}
	switch {
	case !s.output.isWriter(c.view):
		return fmt.Errorf("unexpected %.40q from a client without input", m.Type)
	case m.Type == wire.Input:
		s.output.log.Touch()
		if err := run.write(m.Data); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return nil
	case m.Type == wire.Resize:
		return s.resize(run, m)
	}
	return fmt.Errorf("unknown message %.40q from an attached client", m.Type)
}

// resize changes the size of the terminal, and tells those who see it.
func (s *slot) resize(run *incarnation, m *wire.Message) error {
	size, err := run.resize(m)
	if err == nil {
		s.output.resized(size)
	}
	return err
}
