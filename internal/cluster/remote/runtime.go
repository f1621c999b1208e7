package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// Runtime is one of the runtimes of another node.
type Runtime struct {
	c      *Client
	kind   string
	ctx    context.Context // done when it is closed
	cancel context.CancelCauseFunc
}

var _ runtime.Runtime = (*Runtime)(nil)

// Runtime returns the runtime of a kind. Closing it leaves the client open.
func (c *Client) Runtime(kind string) *Runtime {
	r := &Runtime{c: c, kind: kind}
	r.ctx, r.cancel = context.WithCancelCause(c.ctx)
	return r
}

// Kind is part of runtime.Runtime.
func (r *Runtime) Kind() string { return r.kind }

// Close is part of runtime.Runtime.
func (r *Runtime) Close() error {
	r.cancel(slots.ErrClosed)
	return nil
}

// both returns a context that ends with ctx or with the runtime.
func (r *Runtime) both(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// request returns a request about a slot.
func (r *Runtime) request(op, path string) (*message.Request, error) {
	if _, err := wire.DirName(path); err != nil {
		return nil, err
	}
	f := r.c.o.Fence()
	return &message.Request{Op: op, Ref: message.Ref{Kind: r.kind, Path: path}, Fence: &f}, nil
}

// Start is part of runtime.Runtime.
func (r *Runtime) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	req, err := r.request(message.OpStart, l.Path)
	if err != nil {
		return nil, err
	}
	if l.Token == "" {
		l.Token = rand.Text()
	}
	if req.Launch, err = message.NewLaunch(l); err != nil {
		return nil, fmt.Errorf("start %s on node %s: %w", l.Path, r.c.o.Node, err)
	}
	req.Incarnation, req.Token = l.Incarnation, l.Token
	until, cancel := r.both(ctx)
	defer cancel()
	link, err := r.c.await(until)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", l.Path, err)
	}
	leave, err := r.c.enter(until, r.c.starts)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", l.Path, err)
	}
	var kept keeper
	pending, err := link.begin(req, leave, func(a *message.Answer) { kept.add(r, link, req, a) })
	if err != nil {
		return nil, err
	}
	if err := r.started(ctx, link, req, pending); err != nil {
		return nil, err
	}
	return kept.session(r)
}

// started waits for the answer to a start, which it gives up when ctx is done.
func (r *Runtime) started(ctx context.Context, l *link, req *message.Request, c *call) error {
	givenUp := ctx.Done()
	for {
		select {
		case <-c.done:
			err := c.final.Failure.Err()
			if err != nil && givenUp == nil {
				err = fmt.Errorf("start was given up (%w): %w", context.Cause(ctx), err)
			}
			return err
		case <-givenUp:
			givenUp = nil
			_ = l.send(&message.Request{ID: req.ID, Op: message.OpCancel}) // see below for a lost connection
		case <-l.lost:
			select {
			case <-c.done:
				continue
			default:
				return l.error()
			}
		case <-r.ctx.Done():
			return fmt.Errorf("%w: %w", runtime.ErrUnknown, context.Cause(r.ctx))
		}
	}
}

// Adopt is part of runtime.Runtime.
func (r *Runtime) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	req, err := r.request(message.OpAdopt, path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.both(ctx)
	defer cancel()
	var kept keeper
	_, err = r.c.ask(ctx, req, true, func(l *link, a *message.Answer) { kept.add(r, l, req, a) })
	if err != nil {
		return nil, err
	}
	return kept.session(r)
}

// Ready is part of runtime.Runtime.
func (r *Runtime) Ready(ctx context.Context, path string, incarnation uint64) error {
	return r.change(ctx, message.OpReady, path, incarnation)
}

// Remove is part of runtime.Runtime.
func (r *Runtime) Remove(ctx context.Context, path string) error {
	return r.change(ctx, message.OpRemove, path, 0)
}

func (r *Runtime) change(ctx context.Context, op, path string, incarnation uint64) error {
	req, err := r.request(op, path)
	if err != nil {
		return err
	}
	req.Incarnation = incarnation
	ctx, cancel := r.both(ctx)
	defer cancel()
	_, err = r.c.ask(ctx, req, true, nil)
	return err
}

// errTooMuch is returned for an answer without an end.
var errTooMuch = errors.New("the answer of the node is too long")

// List is part of runtime.Runtime.
func (r *Runtime) List(ctx context.Context) ([]runtime.Observation, error) {
	ctx, cancel := r.both(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("listing the slots: %w", context.Cause(ctx))
	}
	parts, err := r.collect(ctx, message.OpList)
	if err != nil {
		return nil, fmt.Errorf("listing the slots of node %s: %w", r.c.o.Node, err)
	}
	now := time.Now()
	var all []runtime.Observation
	for _, a := range parts {
		for _, s := range a.List {
			all = append(all, r.observation(&s, now))
		}
	}
	return all, nil
}

// observation returns what the node has told of an incarnation.
func (r *Runtime) observation(st *message.State, now time.Time) runtime.Observation {
	o := st.Observation(now)
	o.Node = r.c.o.Node
	return o
}

// removedTimeout bounds Removed, which has no context.
const removedTimeout = 10 * time.Second

// Removed is part of runtime.Runtime.
func (r *Runtime) Removed() ([]string, error) {
	ctx, cancel := context.WithTimeout(r.ctx, removedTimeout)
	defer cancel()
	parts, err := r.collect(ctx, message.OpRemoved)
	if err != nil {
		return nil, fmt.Errorf("listing the removed slots of node %s: %w", r.c.o.Node, err)
	}
	var all []string
	for _, a := range parts {
		all = append(all, a.Texts...)
	}
	return all, nil
}

// collect returns all answers to a request.
func (r *Runtime) collect(ctx context.Context, op string) ([]*message.Answer, error) {
	var parts collector
	_, err := r.c.ask(ctx, &message.Request{Op: op, Ref: message.Ref{Kind: r.kind}}, true, parts.add)
	all, tooMuch := parts.close()
	if err == nil {
		err = tooMuch
	}
	return all, err
}

// Log is part of runtime.Runtime. It fails: the file is on the other node. Tail reads it.
func (r *Runtime) Log(path string) (string, error) {
	return "", fmt.Errorf("%w: the log of %.200q is a file of node %s", runtime.ErrUnsupported, path, r.c.o.Node)
}
