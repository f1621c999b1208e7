package remote

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// collector collects the answers to one request. Those from before a connection was lost do not count.
type collector struct {
	mu     sync.Mutex
	from   *link
	parts  []*message.Answer
	size   int // bytes of parts
	closed bool
}

func (c *collector) add(l *link, a *message.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from != l {
		c.from, c.parts, c.size = l, nil, 0
	}
	if c.closed || c.size > maxAnswer {
		return
	}
	if c.size += a.Size; c.size > maxAnswer {
		c.parts = nil
	} else {
		c.parts = append(c.parts, a)
	}
}

// close returns what was collected. The rest of an answer that was given up is not.
func (c *collector) close() ([]*message.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.size > maxAnswer {
		return nil, errTooMuch
	}
	return c.parts, nil
}

// keeper keeps the session in the answer to a start or an adoption: the first state of its agent on a connection.
type keeper struct {
	mu   sync.Mutex
	from *link
	kept *session
}

func (k *keeper) add(r *Runtime, l *link, q *message.Request, a *message.Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.State == nil || a.State.Kind != q.Kind || a.State.Path != q.Path || k.from == l {
		return
	}
	k.from, k.kept = l, r.c.keep(r, l, a.State)
}

func (k *keeper) session(r *Runtime) (runtime.Session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		return nil, fmt.Errorf("%w: node %s has answered without a state of the agent", runtime.ErrUnknown, r.c.o.Node)
	}
	return k.kept, nil
}

// news passes the last text of a stream from the reader of a connection to a goroutine that may be slow.
type news struct {
	c    chan struct{} // holds a token while there is some
	mu   sync.Mutex
	text string
}

func (n *news) add(_ *link, a *message.Answer) {
	if !a.More {
		return
	}
	n.mu.Lock()
	n.text = ""
	if len(a.Texts) > 0 {
		n.text = a.Texts[0]
	}
	n.mu.Unlock()
	select {
	case n.c <- struct{}{}:
	default:
	}
}

// stream passes on the texts of a stream until that ends, ctx does, or the connection is lost.
func (s *session) stream(ctx context.Context, op string, f func(text string)) error {
	ctx, cancel := s.r.both(ctx)
	defer cancel()
	n := &news{c: make(chan struct{}, 1)}
	ended := make(chan error, 1)
	go func() {
		_, err := s.r.c.ask(ctx, s.request(op), false, n.add)
		ended <- err
	}()
	for {
		select {
		case <-n.c:
			n.mu.Lock()
			text := n.text
			n.mu.Unlock()
			f(text)
		case err := <-ended:
			return err
		}
	}
}

// Follow is part of runtime.Session.
func (s *session) Follow(ctx context.Context, grew func()) error {
	for {
		grew()
		err := s.stream(ctx, message.OpFollow, func(string) { grew() })
		switch {
		case ctx.Err() != nil:
			return nil
		case s.r.ctx.Err() != nil:
			return slots.ErrClosed
		case err == nil, isOver(err):
			grew()
			return nil
		case !isTemporary(err):
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-s.r.c.reconnected():
		case <-s.done:
		case <-ctx.Done():
		case <-s.r.ctx.Done():
		}
	}
}

// Unfinished is part of runtime.Unfinished.
func (s *session) Unfinished(ctx context.Context, f func(text string)) error {
	if s.hasEnded() {
		return errEnded
	}
	err := s.stream(ctx, message.OpUnfinished, f)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
