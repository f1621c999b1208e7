package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// held is a session of a local runtime that clients have.
type held struct {
	message.Ref
	session  runtime.Session
	finished chan struct{} // closed when it has ended and wasReady is final, or the server is closed

	mu       sync.Mutex
	wasReady bool
	last     runtime.Observation // as poll has seen it
}

// startings are the starts in progress in a slot, by their tokens.
type startings struct {
	tokens map[string]int
	all    int
}

// state returns what is known now.
func (h *held) state() *message.State {
	if slots.IsClosed(h.session.Done()) {
		<-h.finished
	}
	o := h.session.Observe()
	if o.Life == runtime.Dead && !slots.IsClosed(h.finished) { // it has ended this moment
		<-h.finished
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	o.Ready = o.Ready || h.wasReady
	st := message.NewState(h.Kind, o, time.Now())
	st.Ref = h.Ref // a damaged slot knows less
	return st
}

// changed reports whether the observation has changed since the last call.
func (h *held) changed() bool {
	o := h.session.Observe()
	h.mu.Lock()
	defer h.mu.Unlock()
	if same(h.last, o) {
		return false
	}
	h.last = o
	return true
}

// same reports whether two observations of a session are equal. What never changes is not compared, nor is the exit.
func same(a, b runtime.Observation) bool {
	return a.Life == b.Life && a.Ready == b.Ready && a.PID == b.PID && a.Detail == b.Detail &&
		a.StartedAt.Equal(b.StartedAt) && sameNotice(a.Said, b.Said)
}

// sameNotice compares notices whose times may be the same ones, computed twice from ages.
func sameNotice(a, b sdnotify.Notice) bool {
	near := func(a, b time.Time) bool {
		return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Millisecond
	}
	return a.Status == b.Status && a.Period == b.Period && a.Triggered == b.Triggered && a.Reloading == b.Reloading &&
		a.Errno == b.Errno && near(a.Since, b.Since) && near(a.Heard, b.Heard) && near(a.Alive, b.Alive) &&
		near(a.Until, b.Until) && near(a.Stopping, b.Stopping)
}

// hold returns the held session of the incarnation of a local session.
func (s *Server) hold(kind string, session runtime.Session) *held {
	o := session.Observe()
	h := &held{
		Ref:     message.Ref{Kind: kind, Path: o.Path, Incarnation: o.Incarnation, Token: o.Token},
		session: session, finished: make(chan struct{}), wasReady: o.Ready, last: o,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.held[h.Slot()]; old != nil && old.Ref == h.Ref && !slots.IsClosed(old.session.Done()) {
		return old
	}
	s.held[h.Slot()] = h
	if s.ctx.Err() != nil {
		close(h.finished)
		return h
	}
	s.running.Go(func() { s.follow(h) })
	return h
}

// follow follows a session to its end.
func (s *Server) follow(h *held) {
	if h.session.AwaitReady(s.ctx) == nil { // returns at the end, too
		h.mu.Lock()
		news := !h.wasReady
		h.wasReady = true
		h.mu.Unlock()
		if news {
			s.tell(h)
		}
	}
	select {
	case <-h.session.Done():
	case <-s.ctx.Done():
	}
	close(h.finished)
	s.mu.Lock()
	if s.held[h.Slot()] == h {
		delete(s.held, h.Slot())
	}
	s.mu.Unlock()
	s.tell(h)
}

// tell makes all connections that watch a session send its state.
func (s *Server) tell(h *held) {
	for _, c := range s.connections() {
		c.touch(h)
	}
}

func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// pollInterval is the time between two looks at what sessions know. Readiness and ends are told without it.
const pollInterval = 500 * time.Millisecond

// poll tells what has changed in sessions, for which they have no channel.
func (s *Server) poll() {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		for _, c := range s.connections() {
			for _, h := range c.watching() {
				if h.changed() {
					s.tell(h)
				}
			}
		}
	}
}

// begin notes a start that was received.
func (s *Server) begin(at message.Slot, token string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting[at] == nil {
		s.starting[at] = &startings{tokens: make(map[string]int)}
	}
	st := s.starting[at]
	st.tokens[token]++
	st.all++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if st.tokens[token]--; st.tokens[token] == 0 {
			delete(st.tokens, token)
		}
		if st.all--; st.all == 0 {
			delete(s.starting, at)
		}
	}
}

// errStarting is returned while it is open what an incarnation that is being started becomes.
var errStarting = fmt.Errorf("%w: a start in the slot is in progress", runtime.ErrUnknown)

// adopt returns the held session of the last incarnation of a slot. If a start is in progress there, that is the one
// that is being started.
func (s *Server) adopt(ctx context.Context, at message.Slot) (*held, error) {
	r, err := s.runtime(at.Kind)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	h, starts := s.held[at], s.starting[at]
	s.mu.Unlock()
	if h != nil && !slots.IsClosed(h.session.Done()) {
		return h, nil
	}
	session, err := r.Adopt(ctx, at.Path)
	if starts == nil {
		s.mu.Lock()
		starts = s.starting[at]
		s.mu.Unlock()
	}
	if starts != nil && !s.isOf(starts, session, err) {
		return nil, errStarting
	}
	if err != nil {
		return nil, err
	}
	return s.hold(at.Kind, session), nil
}

// isOf reports whether a session is that of a start in progress.
func (s *Server) isOf(starts *startings, session runtime.Session, err error) bool {
	if err != nil {
		return false
	}
	token := session.Observe().Token
	s.mu.Lock()
	defer s.mu.Unlock()
	return starts.tokens[token] > 0
}

// lookup returns the held session of an incarnation. The error wraps runtime.ErrStale if it is not the last one of
// its slot, or fs.ErrNotExist if the slot was removed: then it has ended.
func (s *Server) lookup(ctx context.Context, r message.Ref) (*held, error) {
	h, err := s.adopt(ctx, r.Slot())
	switch {
	case err != nil:
		return nil, err
	case h.Ref != r:
		return nil, fmt.Errorf("%w: the slot of %.200q has incarnation %d", runtime.ErrStale, r.Path, h.Incarnation)
	}
	return h, nil
}

// stateOf returns the state of an incarnation, with its end if that was missed.
func (s *Server) stateOf(ctx context.Context, r message.Ref) (*held, *message.State) {
	h, err := s.lookup(ctx, r)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, runtime.ErrStale):
		return nil, message.LostState(r, errors.New("its slot was given to another incarnation"), time.Now())
	case errors.Is(err, fs.ErrNotExist):
		return nil, message.LostState(r, errors.New("its slot was removed"), time.Now())
	}
	return nil, &message.State{Ref: r, Detail: err.Error()}
}
