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
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// callTimeout bounds the answer of a shim.
const callTimeout = 5 * time.Second

var (
	errLinkLost = errors.New("connection to the shim lost")
	errSilent   = errors.New("shim does not respond")
)

// link is a connection to a shim.
type link struct {
	c *net.UnixConn
	r *wire.Reader

	restricts, confines bool // capabilities of the shim: see wire.State

	writing sync.Mutex

	mu      sync.Mutex
	id      uint64
	pending map[uint64]chan *wire.Message
	update  func(*wire.Message) // called with each message about the state
	err     error
	closed  chan struct{}
}

// dial connects to the shim of a slot.
func dial(ctx context.Context, dir string) (*link, *wire.State, error) {
	c, err := connect(ctx, dir, wire.SocketFile)
	if err != nil {
		return nil, nil, err
	}
	l, hello, err := greet(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return l, hello.State, nil
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

// greet says hello and returns the answer of the shim. Only one goroutine may use the link until
// run is called.
func greet(ctx context.Context, c *net.UnixConn) (*link, *wire.Message, error) {
	l := &link{c: c, r: wire.NewReader(c), pending: make(map[uint64]chan *wire.Message), closed: make(chan struct{})}
	fail := func(err error) (*link, *wire.Message, error) {
		c.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errSilent
		}
		return nil, nil, fmt.Errorf("greeting the shim: %w", err)
	}
	end := time.Now().Add(callTimeout)
	if t, ok := ctx.Deadline(); ok && t.Before(end) {
		end = t
	}
	c.SetDeadline(end)
	if err := l.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1}); err != nil {
		return fail(err)
	}
	for {
		m, err := l.r.Read()
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
			l.id, l.restricts, l.confines = 1, m.State.Restricts, m.State.Confines
			return l, m, nil
		}
	}
}

// ignores reports whether the version of the shim would ignore a restriction of a launch.
func (l *link) ignores(launch runtime.Launch) bool {
	return (launch.NoNewPrivileges || launch.User != nil) && !l.restricts || launch.Paths != nil && !l.confines
}

// send sends a message, with files that the shim gets, too.
func (l *link) send(m *wire.Message, files ...*os.File) error {
	b, err := wire.Encode(m)
	if err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.c.SetWriteDeadline(time.Now().Add(callTimeout))
	if len(files) > 0 {
		err = wire.SendFiles(l.c, b, files)
	} else {
		_, err = l.c.Write(b)
	}
	return err
}

// listen sets the function that gets messages about the state.
func (l *link) listen(update func(*wire.Message)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update = update
}

// run reads messages until the connection ends.
func (l *link) run() {
	for {
		m, err := l.r.Read()
		if err != nil {
			l.close(fmt.Errorf("%w: %w", errLinkLost, err))
			return
		}
		l.mu.Lock()
		answer := l.pending[m.ID]
		delete(l.pending, m.ID)
		update := l.update
		l.mu.Unlock()
		if update != nil {
			update(m) // answers, too, since an end may follow immediately
		}
		if answer != nil {
			answer <- m
		}
	}
}

func (l *link) close(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = why
		close(l.closed)
		l.c.Close()
	}
}

func (l *link) lost() bool { return slots.IsClosed(l.closed) }

// call sends a request and returns its answer; an Error message is returned as an error. After
// errLinkLost, errSilent and the end of ctx it is unknown whether the request was carried out.
func (l *link) call(ctx context.Context, m wire.Message, files ...*os.File) (*wire.Message, error) {
	answer := make(chan *wire.Message, 1)
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return nil, l.err
	}
	l.id++
	m.ID = l.id
	l.pending[m.ID] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.pending, m.ID)
	}()
	if err := l.send(&m, files...); err != nil {
		if errors.Is(err, wire.ErrTooLong) {
			return nil, err
		}
		l.close(fmt.Errorf("%w: %w", errLinkLost, err))
		return nil, l.err
	}
	select {
	case a := <-answer:
		return answered(a)
	case <-l.closed:
		select {
		case a := <-answer:
			return answered(a)
		default:
			return nil, l.err
		}
	case <-time.After(callTimeout):
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
