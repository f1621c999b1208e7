package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/supervisor"
)

// session is an incarnation on another node.
type session struct {
	r *Runtime
	message.Ref
	ready chan struct{} // closed when it is ready or has ended
	done  chan struct{} // closed when its end is certain
	poke  chan struct{} // holds a token when more is wanted

	mu         sync.Mutex
	obs        runtime.Observation
	known      *link         // that has told obs; nil if none has
	wasReady   bool          // it was ready
	wanted     string        // opStop or opKill; empty if neither
	grace      time.Duration // with a stop, if it is longer than the grace period
	cancelStop context.CancelFunc
	told       chan struct{} // gets a token with each state; nil but in tests
}

var (
	_ runtime.Session    = (*session)(nil)
	_ runtime.Unfinished = (*session)(nil)
)

// keep returns the session of a state that a connection has told.
func (c *Client) keep(r *Runtime, l *link, st *message.State) *session {
	c.mu.Lock()
	s := c.sessions[st.Ref]
	if s == nil || s.r != r && s.r.ctx.Err() != nil {
		s = &session{
			r: r, Ref: st.Ref, ready: make(chan struct{}), done: make(chan struct{}), poke: make(chan struct{}, 1),
		}
		if st.End == nil {
			c.sessions[st.Ref] = s
		}
	}
	c.mu.Unlock()
	s.apply(l, st)
	return s
}

// update applies a state that a connection has told of a session. One that is not known has ended before.
func (c *Client) update(l *link, st *message.State) {
	c.mu.Lock()
	s := c.sessions[st.Ref]
	c.mu.Unlock()
	if s != nil {
		s.apply(l, st)
	}
}

// apply applies a state. What comes after the end is ignored.
func (s *session) apply(l *link, st *message.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasEnded() {
		return
	}
	defer func() {
		select {
		case s.told <- struct{}{}:
		default:
		}
	}()
	before := s.obs
	s.obs, s.known = s.r.observation(st, time.Now()), l
	if s.obs.Life == runtime.Unknown { // the node does not know it itself
		before.Life, before.Detail = runtime.Unknown, s.obs.Detail
		if before.Path != "" {
			s.obs = before
		}
	}
	if st.Ready && !s.wasReady {
		s.wasReady = true
		close(s.ready)
	}
	if st.End != nil {
		s.finish()
	}
}

// Lost declares that the incarnation has ended at a time, although its exit is unknown. The caller must be certain of
// that: the lease of the node has ended, and so has the time that the agent has to stop after that.
func (s *session) Lost(e supervisor.Exit, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasEnded() {
		return
	}
	s.obs.Life, s.obs.Exit, s.obs.ExitedAt, s.obs.PID, s.obs.Ready = runtime.Dead, e, at, 0, false
	s.obs.Detail = ""
	s.finish()
}

// finish closes done. Needs mu.
func (s *session) finish() {
	if !s.wasReady {
		close(s.ready)
	}
	c := s.r.c
	c.mu.Lock()
	if c.sessions[s.Ref] == s {
		delete(c.sessions, s.Ref)
	}
	c.mu.Unlock()
	close(s.done)
}

// Done is part of runtime.Session.
func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) hasEnded() bool { return slots.IsClosed(s.done) }

// Exit is part of runtime.Session.
func (s *session) Exit() supervisor.Exit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.obs.Exit
}

// Observe returns what the node has told last, without asking it.
func (s *session) Observe() runtime.Observation {
	l, _ := s.r.c.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.obs
	switch {
	case s.hasEnded():
	case l == nil:
		o.Life, o.Detail = runtime.Unknown, s.r.c.silent().Error()
	case s.known != l:
		o.Life = runtime.Unknown
		o.Detail = fmt.Sprintf("node %s has not told its state since the connection was lost", s.r.c.o.Node)
	}
	return o
}

// AwaitReady is part of runtime.Session.
func (s *session) AwaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.r.ctx.Done():
		return slots.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wasReady {
		return nil
	}
	return slots.NotReady(s.obs.Exit)
}

// errEnded is returned for requests after the end.
var errEnded = runtime.ErrEnded

// request returns a request about the incarnation.
func (s *session) request(op string) *message.Request {
	f := s.r.c.o.Fence()
	return &message.Request{Op: op, Ref: s.Ref, Fence: &f}
}

// ask asks the node about the incarnation.
func (s *session) ask(
	ctx context.Context, r *message.Request, again bool, part func(*link, *message.Answer),
) (*message.Answer, error) {
	ctx, cancel := s.r.both(ctx)
	defer cancel()
	return s.r.c.ask(ctx, r, again, part)
}

// change asks the node to do something with an incarnation that runs.
func (s *session) change(ctx context.Context, r *message.Request, again bool) error {
	if s.hasEnded() {
		return errEnded
	}
	_, err := s.ask(ctx, r, again, nil)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", runtime.ErrEnded, err)
	}
	return err
}

// Signal is part of runtime.Session.
func (s *session) Signal(ctx context.Context, sig syscall.Signal) error {
	r := s.request(message.OpSignal)
	r.Signal = message.NewSignal(sig)
	return s.change(ctx, r, false)
}

// Write is part of runtime.Session.
func (s *session) Write(ctx context.Context, data []byte) error {
	for {
		r := s.request(message.OpWrite)
		r.Data = data[:min(len(data), message.MaxData)]
		if err := s.change(ctx, r, false); err != nil {
			return err
		}
		if data = data[len(r.Data):]; len(data) == 0 {
			return nil
		}
	}
}

// Resize is part of runtime.Session.
func (s *session) Resize(ctx context.Context, rows, cols uint16) error {
	r := s.request(message.OpResize)
	r.Rows, r.Cols = rows, cols
	return s.change(ctx, r, true)
}

// Peek is part of runtime.Session.
func (s *session) Peek(ctx context.Context, n int) ([]string, error) {
	r := s.request(message.OpPeek)
	r.Lines = n
	a, err := s.ask(ctx, r, true, nil)
	if err != nil {
		return nil, err
	}
	return a.Texts, nil
}

// Screen returns the last lines of the screen of an agent that draws on it.
func (s *session) Screen(ctx context.Context, n int) (lines []string, paints bool) {
	if s.hasEnded() {
		return nil, false
	}
	r := s.request(message.OpScreen)
	r.Lines = n
	a, err := s.ask(ctx, r, true, nil)
	if err != nil {
		return nil, false
	}
	return a.Texts, a.Screen
}

// LastActivity is part of runtime.Session. After it, Observe returns what the node knew when it answered.
func (s *session) LastActivity(ctx context.Context) (time.Time, error) {
	a, err := s.ask(ctx, s.request(message.OpActivity), true, func(l *link, a *message.Answer) {
		if a.State != nil && a.State.Ref == s.Ref {
			s.apply(l, a.State)
		}
	})
	if err != nil || a.Age == nil {
		return time.Time{}, err
	}
	return time.Now().Add(-*a.Age), nil
}
