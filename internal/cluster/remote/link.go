package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// link is a connection of a Client.
type link struct {
	c    *Client
	out  message.Writer
	in   *bufio.Reader
	lost chan struct{} // closed when the connection is lost
	refs []message.Ref // sessions that are older than the connection

	mu      sync.Mutex
	cause   error // why it is lost
	last    uint64
	pending map[uint64]*call
}

// call is a request that is in progress.
type call struct {
	done  chan struct{}         // closed when it was answered
	over  func()                // called then, or when the connection is lost
	part  func(*message.Answer) // called with each answer, by the reader; may be nil
	final *message.Answer
}

var (
	errConnecting = errors.New("there is no connection yet")
	errLost       = errors.New("the connection is lost")
	errSilent     = errors.New("it does not answer")
)

const (
	// pingInterval is the time between two pings, whose answers may take twice as long.
	pingInterval = 5 * time.Second
	maxTries     = 5 // to send a request that may be repeated
	// maxAnswer bounds the parts of an answer together, in bytes: tens of thousands of slots.
	maxAnswer = 64 << 20
)

func newLink(c *Client, nc net.Conn, in *bufio.Reader) *link {
	return &link{
		c: c, out: message.Writer{Conn: nc}, in: in, lost: make(chan struct{}), pending: make(map[uint64]*call),
	}
}

// hello says hello and reads the answer.
func (l *link) hello() error {
	b, err := message.Encode(&message.Request{ID: 1, Op: message.OpHello, Version: message.Version, Client: l.c.id})
	if err != nil {
		return err
	}
	l.last = 1
	if err := l.out.Send(b); err != nil {
		return err
	}
	var a message.Answer
	if _, err := message.Read(l.in, &a); err != nil {
		return err
	}
	if err := a.Failure.Err(); err != nil {
		return err
	}
	if a.Version != message.Version {
		return fmt.Errorf("it speaks version %d; expected %d", a.Version, message.Version)
	}
	return nil
}

// serve reads answers until the connection is lost, and returns why.
func (l *link) serve() error {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(l.watch)
	working.Go(l.ping)
	for {
		a := new(message.Answer)
		n, err := message.Read(l.in, a)
		if err != nil {
			l.close(err)
			return l.why()
		}
		a.Size = n
		if a.ID == 0 {
			if a.State != nil {
				l.c.update(l, a.State)
			}
			continue
		}
		l.mu.Lock()
		call := l.pending[a.ID]
		if call != nil && !a.More {
			delete(l.pending, a.ID)
		}
		l.mu.Unlock()
		if call == nil {
			continue
		}
		if call.part != nil {
			call.part(a)
		}
		if !a.More {
			call.final = a
			call.over()
			close(call.done)
		}
	}
}

// watch names the sessions of the client.
func (l *link) watch() {
	for refs := l.refs; len(refs) > 0; {
		n := min(len(refs), message.MaxRefs)
		if l.send(&message.Request{Op: message.OpWatch, Refs: refs[:n]}) != nil {
			return
		}
		refs = refs[n:]
	}
}

// ping closes the connection when the node does not answer.
func (l *link) ping() {
	for {
		select {
		case <-time.After(l.c.pings):
		case <-l.lost:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*l.c.pings)
		c, err := l.begin(&message.Request{Op: message.OpPing}, func() {}, nil)
		if err == nil {
			err = l.finish(ctx, c)
		}
		cancel()
		if err != nil {
			l.close(errSilent)
			return
		}
	}
}

// close ends the connection.
func (l *link) close(why error) {
	l.mu.Lock()
	first := l.cause == nil
	var all map[uint64]*call
	if first {
		l.cause = why
		all, l.pending = l.pending, nil
		close(l.lost)
	}
	l.mu.Unlock()
	message.HangUp(l.out.Conn)
	for _, c := range all {
		c.over()
	}
}

func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// error returns the error of a request whose answer is lost.
func (l *link) error() error {
	return fmt.Errorf("%w: %w to node %s: %w", runtime.ErrUnknown, errLost, l.c.o.Node, l.why())
}

// send sends a request without an answer.
func (l *link) send(r *message.Request) error {
	b, err := message.Encode(r)
	if err != nil {
		return err
	}
	return l.write(b)
}

func (l *link) write(b []byte) error {
	if err := l.out.Send(b); err != nil {
		l.close(err)
		return l.error()
	}
	return nil
}

// begin sends a request. over is called exactly once, also after an error.
func (l *link) begin(r *message.Request, over func(), part func(*message.Answer)) (*call, error) {
	c := &call{done: make(chan struct{}), over: over, part: part}
	l.mu.Lock()
	if l.pending == nil {
		l.mu.Unlock()
		over()
		return nil, l.error()
	}
	l.last++
	r.ID = l.last
	l.pending[r.ID] = c
	l.mu.Unlock()
	b, err := message.Encode(r)
	if err != nil { // nothing was sent
		l.mu.Lock()
		_, mine := l.pending[r.ID]
		delete(l.pending, r.ID)
		l.mu.Unlock()
		if mine {
			over()
		}
		return nil, fmt.Errorf("request %s: %w", r.Op, err)
	}
	if err := l.write(b); err != nil {
		return nil, err
	}
	return c, nil
}

// finish waits for the answer to a request.
func (l *link) finish(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.final.Failure.Err()
	default:
	}
	select {
	case <-c.done:
		return c.final.Failure.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.lost:
		select {
		case <-c.done:
			return c.final.Failure.Err()
		default:
			return l.error()
		}
	}
}

// enter waits for a place in a semaphore.
func (c *Client) enter(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.ctx.Done():
		return nil, slots.ErrClosed
	}
}

// ask sends a request and returns the last answer. If ctx is done before, the request is given up. A request that
// may be repeated is, after the connection was lost.
func (c *Client) ask(
	ctx context.Context, r *message.Request, again bool, part func(*link, *message.Answer),
) (*message.Answer, error) {
	for tries := 1; ; tries++ {
		l, err := c.await(ctx)
		if err != nil {
			return nil, err
		}
		places := c.calls
		if r.Op == message.OpFollow || r.Op == message.OpUnfinished {
			places = c.starts
		}
		leave, err := c.enter(ctx, places)
		if err != nil {
			return nil, err
		}
		var each func(*message.Answer)
		if part != nil {
			each = func(a *message.Answer) { part(l, a) }
		}
		once := *r
		pending, err := l.begin(&once, leave, each)
		if err == nil {
			err = l.finish(ctx, pending)
		}
		switch {
		case err == nil:
			return pending.final, nil
		case errors.Is(err, errLost) && again && tries < maxTries:
			select { // until the client knows it, too
			case <-c.replaced(l):
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		case ctx.Err() != nil && pending != nil:
			_ = l.send(&message.Request{ID: once.ID, Op: message.OpCancel}) // a lost connection gives it up, too
		}
		return nil, err
	}
}

// replaced returns a channel that is closed when a connection is not the current one.
func (c *Client) replaced(l *link) <-chan struct{} {
	current, changed := c.current()
	if current == l {
		return changed
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}
