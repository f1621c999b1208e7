package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/store"
)

const (
	// maxOutput bounds the output of a command that the client has not taken, in bytes; one line more is possible.
	maxOutput = 64 << 10
	// lineCost is added to the length of each line.
	lineCost = 64
)

// command is one that runs on this node.
type command struct {
	c    *conn
	done chan struct{} // closed when it has ended
}

// exec runs a command to its end. It ends with the connection, the lease of this node and the term of the controller.
func (c *conn) exec(ctx context.Context, req *message.Request, o *outgoing) error {
	l, err := req.Launch.Unpack()
	if err != nil {
		return err
	}
	l.Path, l.Incarnation = req.Path, req.Incarnation
	end, err := c.enter(ctx, req.Slot())
	if err != nil {
		return err
	}
	defer end()
	if err := c.s.checkLease(&l); err != nil {
		return err
	}
	if err := c.s.o.Localize(&l); err != nil {
		return fmt.Errorf("%w: %w", proc.ErrCommand, err)
	}
	if req.Timeout > 0 {
		late := fmt.Errorf("it has not ended within %v", req.Timeout)
		timed, cancel := context.WithTimeoutCause(ctx, req.Timeout, late)
		defer cancel()
		ctx = timed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var checking sync.WaitGroup
	defer checking.Wait()
	defer cancel(nil)
	checking.Go(func() { c.s.whileAllowed(ctx, cancel, req.Fence, &l) })
	out := c.output(ctx, req.ID)
	last, err := runtime.ExecHere(ctx, l, out.add)
	if errors.Is(err, runtime.ErrFenced) { // which would say that it has not run
		err = fmt.Errorf("%w: it was stopped when the node had lost its lease", runtime.ErrNodeLost)
	}
	o.Output, o.Texts, o.Failure = out.end(), lastLines(last, maxTexts), message.NewFailure(err)
	return nil
}

// enter notes a command of an agent. It waits for those of other connections: each of these is lost, or of a
// controller that was replaced, so they are being ended.
func (c *conn) enter(ctx context.Context, at message.Slot) (end func(), err error) {
	mine := &command{c, make(chan struct{})}
	s := c.s
	for {
		s.mu.Lock()
		other := otherThan(c, s.commands[at])
		if other == nil {
			s.commands[at] = append(s.commands[at], mine)
			s.mu.Unlock()
			break
		}
		s.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("an earlier command of %.200q has not ended yet: %w", at.Path, context.Cause(ctx))
		}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(mine.done)
		var rest []*command
		for _, other := range s.commands[at] {
			if other != mine {
				rest = append(rest, other)
			}
		}
		if s.commands[at] = rest; rest == nil {
			delete(s.commands, at)
		}
	}, nil
}

// otherThan returns a command of another connection; nil if there is none.
func otherThan(c *conn, all []*command) *command {
	for _, one := range all {
		if one.c != c {
			return one
		}
	}
	return nil
}

// allowInterval is the time between two checks whether a command may go on.
const allowInterval = 250 * time.Millisecond

// whileAllowed cancels a command when the node has lost its lease, or another controller has given orders since.
func (s *Server) whileAllowed(
	ctx context.Context, cancel context.CancelCauseFunc, f *store.Fence, l *runtime.Launch,
) {
	tick := time.NewTicker(allowInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := s.isOlder(f)
		if err == nil {
			err = s.checkLease(l)
		}
		if err != nil {
			cancel(err)
			return
		}
	}
}

// output is the output of a command on its way to the client. At most one part of it is in the connection. The next one
// is sent when the client has taken that, so that a slow reader delays nothing but the command.
type output struct {
	c   *conn
	ctx context.Context // of the command
	id  uint64

	mu    sync.Mutex
	lines []message.Line // that were not sent
	size  int            // of lines
	sent  bool           // a part that the client has not taken
	room  chan struct{}
}

// output begins the output of a request.
func (c *conn) output(ctx context.Context, id uint64) *output {
	out := &output{c: c, ctx: ctx, id: id, room: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outputs[id] = out
	return out
}

// taken notes that the client has taken the part of a request that was sent.
func (c *conn) taken(id uint64) {
	c.mu.Lock()
	out := c.outputs[id]
	c.mu.Unlock()
	if out == nil {
		return // the command has ended
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	out.sent = false
	out.flush()
}

// add adds a line. It waits for room, as long as the command may run.
func (out *output) add(l proc.Line) {
	out.mu.Lock()
	defer out.mu.Unlock()
	for out.size >= maxOutput {
		out.mu.Unlock()
		select {
		case <-out.room:
		case <-out.ctx.Done():
		}
		out.mu.Lock()
		if slots.IsClosed(out.ctx.Done()) && out.size >= maxOutput {
			return // what a command writes while it is ended may be lost
		}
	}
	out.lines = append(out.lines, message.NewLine(l))
	out.size += len(l.Text) + lineCost
	out.flush()
}

// flush sends the next part. Needs mu.
func (out *output) flush() {
	if out.sent || len(out.lines) == 0 {
		return
	}
	// The reader of the connection notices an error.
	_ = out.c.send(&outgoing{Answer: message.Answer{ID: out.id, More: true, Output: out.lines}})
	out.lines, out.size, out.sent = nil, 0, true
	select {
	case out.room <- struct{}{}:
	default:
	}
}

// end returns the lines that were not sent. No line follows.
func (out *output) end() []message.Line {
	out.c.mu.Lock()
	delete(out.c.outputs, out.id)
	out.c.mu.Unlock()
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.lines
}
