package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	// execMargin is how much longer than the client a node lets a command run, when it does not hear that its time is
	// over.
	execMargin = 3 * time.Second
	// answerTime is how long the answer to a request may take, in addition to what the node does for it.
	answerTime = 2 * time.Second
)

// ErrNotSent is wrapped by the error of a command that certainly has not run, because there was no connection.
var ErrNotSent = errors.New("it was not sent to its node")

var _ runtime.Executor = (*Runtime)(nil)

// Exec implements runtime.Executor. It waits for a connection until ctx ends. A command whose connection is lost is
// ended by the node, and not repeated: the error wraps runtime.ErrUnknown.
func (r *Runtime) Exec(ctx context.Context, l runtime.Launch, line func(proc.Line)) (last []string, err error) {
	req, err := r.request(message.OpExec, l.Path)
	if err != nil {
		return nil, err
	}
	if req.Launch, err = message.NewLaunch(l); err != nil {
		return nil, fmt.Errorf("run a command of %s on node %s: %w", l.Path, r.c.o.Node, err)
	}
	req.Incarnation = l.Incarnation
	ctx, cancel := r.both(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	link, err := r.untilConnected(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := r.c.enter(ctx, r.c.starts)
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Deadline(); ok {
		req.Timeout = max(0, time.Until(at)) + execMargin
	}
	parts := make(chan []message.Line, 2) // one that was not taken, and that of the last answer
	pending, err := link.begin(req, leave, func(a *message.Answer) {
		select {
		case parts <- a.Output:
		default: // the node does not wait until the last one is taken
		}
	})
	if err != nil {
		if errors.Is(err, errLost) {
			err = fmt.Errorf("the command may have run: %w", err)
		}
		return nil, err
	}
	over, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		link.passOn(req.ID, parts, over, line)
	}()
	last, err = r.ended(ctx, link, req, pending, l.Grace)
	close(over)
	<-passed
	return last, err
}

// untilConnected returns the connection, for which it waits until ctx ends. Nothing was sent before, so nothing is in
// doubt.
func (r *Runtime) untilConnected(ctx context.Context) (*link, error) {
	var silent *silentError
	for {
		l, err := r.c.await(ctx)
		switch {
		case err == nil && !slots.IsClosed(l.lost):
			return l, nil
		case err == nil:
			select { // until the client knows it, too
			case <-r.c.replaced(l):
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: %w", context.Cause(ctx), ErrNotSent)
			}
		case errors.As(err, &silent) && ctx.Err() == nil:
		case silent != nil:
			return nil, fmt.Errorf("%w: %w: %w", context.Cause(ctx), ErrNotSent, silent)
		default:
			return nil, fmt.Errorf("%w: %w", err, ErrNotSent)
		}
	}
}

// ended waits until the node says that a command has ended. It has the node end it when ctx is done.
func (r *Runtime) ended(
	ctx context.Context, l *link, req *message.Request, c *call, grace time.Duration,
) (last []string, err error) {
	givenUp := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-c.done:
			if givenUp == nil {
				return c.final.Texts, context.Cause(ctx)
			}
			return c.final.Texts, c.final.Failure.Err()
		case <-givenUp:
			givenUp = nil
			_ = l.send(&message.Request{ID: req.ID, Op: message.OpCancel}) // see below for a lost connection
			t := time.NewTimer(grace + supervisor.KillGrace + answerTime)
			defer t.Stop()
			late = t.C
		case <-late:
			return nil, context.Cause(ctx)
		case <-l.lost:
			switch {
			case slots.IsClosed(c.done):
				continue
			case givenUp == nil:
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("the command may have run: %w", l.error())
		}
	}
}

// passOn passes on the output of a command until that has ended. Each part is taken before the node sends the next one.
func (l *link) passOn(id uint64, parts <-chan []message.Line, over <-chan struct{}, line func(proc.Line)) {
	emit := func(part []message.Line) {
		for _, one := range part {
			if line != nil {
				line(one.Line())
			}
		}
	}
	for {
		select {
		case part := <-parts:
			emit(part)
			_ = l.send(&message.Request{ID: id, Op: message.OpTaken}) // a lost connection ends the command
		case <-over:
			for {
				select {
				case part := <-parts:
					emit(part)
				default:
					return
				}
			}
		}
	}
}
