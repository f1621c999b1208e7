package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// callTimeout bounds the answer of a shim.
const callTimeout = 5 * time.Second

var (
	errLinkLost = errors.New("connection to the shim lost")
	errSilent   = errors.New("shim does not respond")
)

// conn is a connection to a shim. The links to all slots of a shim share one.
type conn struct {
	c *net.UnixConn
	r *wire.Reader

	hello *wire.Message // the first answer
	own   bool          // the shim has one slot only, which it does not name: it is of an earlier version
	// outlives means that its version knows no deadline, and there is one.
	outlives bool

	writing sync.Mutex

	mu     sync.Mutex
	id     uint64
	calls  map[uint64]func(*wire.Message)
	links  map[string][]*link  // by the name of the slot
	left   func(*wire.Message) // gets Left
	err    error
	closed chan struct{}
}

// connect connects to a socket in a directory, whose peer must be of this user or root. It reaches
// the socket through the descriptor of the directory, because the path may be too long for a socket
// address.
func connect(ctx context.Context, dir, name string) (*net.UnixConn, error) {
	d, err := private.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(int(d.Fd()))+"/"+name)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("connecting to %s: %w", filepath.Join(dir, name), err)
	}
	uc := c.(*net.UnixConn)
	if err := wire.CheckPeer(uc); err != nil {
		uc.Close()
		return nil, err
	}
	return uc, nil
}

// greet says hello, for a slot or for the shim itself if slot is empty. Only one goroutine may use
// the connection until run is called.
func greet(ctx context.Context, c *net.UnixConn, slot string) (*conn, error) {
	cn := &conn{
		c: c, r: wire.NewReader(c), calls: make(map[uint64]func(*wire.Message)), links: make(map[string][]*link),
		closed: make(chan struct{}),
	}
	fail := func(err error) (*conn, error) {
		c.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errSilent
		}
		return nil, fmt.Errorf("greeting the shim: %w", err)
	}
	end := time.Now().Add(callTimeout)
	if t, ok := ctx.Deadline(); ok && t.Before(end) {
		end = t
	}
	c.SetDeadline(end)
	if err := cn.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1, Name: slot}); err != nil {
		return fail(err)
	}
	for {
		m, err := cn.r.Read()
		switch {
		case err != nil:
			return fail(err)
		case m.Type == wire.Error:
			return fail(m.Failure.Err())
		case m.ID == 1 && m.State != nil:
			if m.State.Version != wire.Version {
				return fail(fmt.Errorf("it has version %d, this program has version %d", m.State.Version, wire.Version))
			}
			c.SetDeadline(time.Time{})
			cn.id, cn.hello = 1, m
			return cn, nil
		}
	}
}

// send sends a message, with files that the shim gets, too.
func (c *conn) send(m *wire.Message, files ...*os.File) error {
	b, err := wire.Encode(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.c.SetWriteDeadline(time.Now().Add(callTimeout))
	if len(files) > 0 {
		return wire.SendFiles(c.c, b, files)
	}
	_, err = c.c.Write(b)
	return err
}

// run reads messages until the connection ends.
func (c *conn) run() {
	for {
		m, err := c.r.Read()
		if err != nil {
			c.close(fmt.Errorf("%w: %w", errLinkLost, err))
			return
		}
		c.mu.Lock()
		answer := c.calls[m.ID]
		delete(c.calls, m.ID)
		links, left := c.links[m.Name], c.left
		if c.own {
			links = c.links[""]
		}
		c.mu.Unlock()
		switch {
		case answer != nil:
			answer(m)
		case m.Type == wire.Left:
			for _, l := range links {
				l.close(fmt.Errorf("%w: the shim has left the slot", errLinkLost))
			}
			if left != nil {
				left(m)
			}
		default:
			for _, l := range links {
				l.deliver(m)
			}
		}
	}
}

// close ends the connection and all links.
func (c *conn) close(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	close(c.closed)
	c.c.Close()
	var all []*link
	for _, links := range c.links {
		all = append(all, links...)
	}
	c.links = nil
	c.mu.Unlock()
	for _, l := range all {
		l.close(why)
	}
}

// call sends a request, and calls answered with its answer, in order with the messages before it.
// After an error it is unknown whether the request was carried out, unless that is wire.ErrTooLong.
// forget gives up the answer.
func (c *conn) call(m wire.Message, answered func(*wire.Message), files ...*os.File) (forget func(), err error) {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	c.id++
	m.ID = c.id
	c.calls[m.ID] = answered
	c.mu.Unlock()
	forget = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, m.ID)
	}
	if err := c.send(&m, files...); err != nil {
		forget()
		if !errors.Is(err, wire.ErrTooLong) {
			c.close(fmt.Errorf("%w: %w", errLinkLost, err))
			err = c.err
		}
		return nil, err
	}
	return forget, nil
}

// ask sends a request about the shim itself, and returns when it is answered.
func (c *conn) ask(ctx context.Context, m wire.Message) error {
	answer := make(chan *wire.Message, 1)
	forget, err := c.call(m, func(m *wire.Message) { answer <- m })
	if err != nil {
		return err
	}
	defer forget()
	_, err = awaitAnswer(ctx, answer, c.closed, func() error { return c.err })
	return err
}

// awaitAnswer returns an answer; an Error message is returned as an error. After errLinkLost,
// errSilent and the end of ctx it is unknown whether the request was carried out.
func awaitAnswer(
	ctx context.Context, answer <-chan *wire.Message, closed <-chan struct{}, why func() error,
) (*wire.Message, error) {
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	select {
	case a := <-answer:
		return answered(a)
	case <-closed:
		select {
		case a := <-answer:
			return answered(a)
		default:
			return nil, why()
		}
	case <-timeout.C:
		return nil, fmt.Errorf("%w: %w", runtime.ErrUnknown, errSilent)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answered returns an answer, or the error in it.
func answered(a *wire.Message) (*wire.Message, error) {
	if a.Type == wire.Error {
		return nil, a.Failure.Err()
	}
	return a, nil
}

// shim returns the identity of the shim.
func (c *conn) shim() proc.Identity { return c.hello.State.Shim }

// unfit returns why the shim may not run a launch: its version would ignore a restriction, or it is
// that of another program. It returns "" if the shim may.
func (c *conn) unfit(l runtime.Launch) string {
	st := c.hello.State
	switch {
	case (l.NoNewPrivileges || l.User != nil) && !st.Restricts || l.Paths != nil && !st.Confines:
		return "of a version without user, no_new_privileges or read_write_paths"
	case c.outlives:
		return "of a version that does not end when the lease of its node does"
	case c.hello.Program && l.Program == nil, l.Program != nil && c.hello.Key != l.Program.Key:
		return "that of " + c.hello.Key
	}
	return ""
}

// askAlone sends the only request of a connection and waits for its answer. If that is an error, it
// closes the connection.
func (c *conn) askAlone(m *wire.Message) error {
	m.ID = 2
	c.c.SetReadDeadline(time.Now().Add(callTimeout))
	err := c.send(m)
	for err == nil {
		var a *wire.Message
		if a, err = c.r.Read(); err != nil || a.ID != m.ID {
			continue
		}
		if a.Type == wire.Error {
			c.c.Close()
			return a.Failure.Err()
		}
		c.c.SetReadDeadline(time.Time{})
		return nil
	}
	c.c.Close()
	return fmt.Errorf("%w: %w", errLinkLost, err)
}
