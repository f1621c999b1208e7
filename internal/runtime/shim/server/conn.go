package server

import (
	"errors"
	"fmt"
	"io"
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
	maxConns     = 64
	helloTimeout = 5 * time.Second  // for the hello
	writeTimeout = 10 * time.Second // for a client to take what was sent, before it is dropped
	maxQueue     = 64               // unsent messages, before a client is dropped
)

// conn is a client. One goroutine reads and another one writes.
type conn struct {
	s    *slot // nil for a trunk
	c    *net.UnixConn
	out  chan []byte
	wake chan struct{} // the view or the listener has something to write
	gone chan struct{}
	once sync.Once

	mu      sync.Mutex
	waiting int  // messages in out, and the one that is being written
	shared  bool // the writer has more to write than out
	raw     syscall.RawConn

	view        *view     // set by the reader before it answers
	listener    *listener // set by the reader before it answers
	incarnation uint64
}

// send sends a message, or drops a client that does not read. It writes what the socket takes
// immediately: waking the writer takes longer, and an agent may be down meanwhile. The writer
// writes the rest.
func (c *conn) send(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == 0 && !c.shared && b != nil {
		if b = b[c.tryWrite(b):]; len(b) == 0 {
			return
		}
	}
	c.waiting++
	select {
	case c.out <- b:
	default:
		c.close()
	}
}

// tryWrite writes as much as possible without waiting.
func (c *conn) tryWrite(b []byte) (n int) {
	c.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b) // the writer gets an error again
		return true
	})
	return max(0, n)
}

// sent is called when a message has left out and the writer.
func (c *conn) sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
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
		var b []byte
		select {
		case b = <-c.out:
		case <-c.wake:
			if !c.writeMore() {
				return
			}
			continue
		case <-c.gone:
			return
		}
		if !c.put(b) {
			return
		}
		c.sent()
	}
}

// put writes a message. Nil, the last message, makes it report false.
func (c *conn) put(b []byte) bool {
	if b == nil {
		return false
	}
	c.c.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.c.Write(b)
	c.c.SetWriteDeadline(time.Time{})
	return err == nil
}

// writeMore writes the output for a view or a listener.
func (c *conn) writeMore() (more bool) {
	for {
		select {
		case b := <-c.out: // the answer comes first
			if !c.put(b) {
				return false
			}
			c.sent()
			continue
		default:
		}
		if c.listener != nil {
			return c.listener.write()
		}
		m, last := c.s.output.take(c.view, c.incarnation)
		if m != nil {
			b, err := wire.Encode(m)
			if err != nil {
				return false
			}
			if !c.put(b) {
				return false
			}
		}
		if last {
			return false
		}
		if m == nil {
			return true
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

func newConn(uc *net.UnixConn) (*conn, error) {
	c := &conn{c: uc, out: make(chan []byte, maxQueue), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	var err error
	c.raw, err = uc.SyscallConn()
	return c, err
}

// serve handles one client of the slot. Whatever it sends affects only its own connection.
func (s *slot) serve(uc *net.UnixConn) {
	if err := wire.CheckClient(uc, s.shim.dir); err != nil {
		uc.Close()
		return
	}
	c, err := newConn(uc)
	if err != nil {
		uc.Close()
		return
	}
	c.s = s
	s.mu.Lock()
	if s.closing || len(s.conns) >= maxConns {
		s.mu.Unlock()
		uc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	go c.write()

	err = s.handleRequests(c)
	if !errors.Is(err, io.EOF) && c.listener == nil {
		c.answer(&wire.Message{}, nil, err)
	}
	c.send(nil) // the writer closes the connection after all answers
	<-c.gone
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
	s.restoreFiles()
	s.shim.releaseMemory()
}

// readHello reads the first message of a client.
func (c *conn) readHello(r *wire.Reader) (*wire.Message, error) {
	c.c.SetReadDeadline(time.Now().Add(helloTimeout))
	m, err := r.Read()
	switch {
	case err != nil:
		return nil, err
	case m.Type != wire.Hello:
		return nil, fmt.Errorf("the first message is %.40q instead of %s", m.Type, wire.Hello)
	case m.V != wire.Version:
		return nil, fmt.Errorf("this shim speaks version %d of the protocol, not %d", wire.Version, m.V)
	}
	return m, c.c.SetReadDeadline(time.Time{})
}

// handleRequests answers the requests of a client until the connection ends. The error is never
// nil.
func (s *slot) handleRequests(c *conn) error {
	r := wire.NewReader(c.c)
	m, err := c.readHello(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	st := s.snapshot()
	s.mu.Unlock()
	c.answer(m, st, nil)
	for {
		m, err := r.Read()
		if err != nil {
			return err
		}
		if c.listener != nil {
			return fmt.Errorf("unexpected %.40q from a listener", m.Type)
		}
		if c.view != nil {
			if err := s.handleInput(c, m); err != nil {
				return err
			}
			continue
		}
		st, err := s.handle(c, m)
		c.answer(m, st, err)
		if c.view != nil {
			s.output.open(c.view)
		}
		if c.listener != nil {
			c.listener.begin()
		}
	}
}

// handle answers one request.
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
		s.listenTo(c, m.Partial)
		return nil, nil
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
		c.incarnation = m.Incarnation
		c.mu.Lock()
		c.shared = true
		c.mu.Unlock()
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
		return nil, run.resize(m)
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
		return run.resize(m)
	}
	return fmt.Errorf("unknown message %.40q from an attached client", m.Type)
}
