package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// lineTimeout bounds how long a change of state waits for earlier lines, if Options.Output is
// slow.
const lineTimeout = 50 * time.Millisecond

// listening passes the lines of a slot's agents to Options.Output.
type listening struct {
	c     *net.UnixConn
	r     *wire.LineReader
	ended chan struct{}

	mu      sync.Mutex
	passed  uint64 // lines so far
	target  uint64 // number of lines that is awaited
	reached chan struct{}
	last    bool // nothing more is written, so lines that do not come soon do not come
}

// listen ensures that the lines of the slot are listened to, before anything is started. Needs
// the turn. A failure loses output, but does not affect the agent.
func (s *slot) listen() {
	if s.r.output == nil {
		return
	}
	if old := s.listening(); old != nil && !slots.IsClosed(old.ended) {
		return
	}
	l, err := newListening(s.r.Ctx, s.dir) // also after a start was given up
	if err != nil {
		if !errors.Is(err, wire.ErrNotServed) { // the shim is leaving the slot, in which nothing runs
			s.r.log.Warn("cannot show the output of an agent", "path", s.path, "error", err)
		}
		return
	}
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
	stop := context.AfterFunc(s.r.Ctx, func() { l.c.Close() })
	going := s.r.Background(func() {
		defer stop()
		l.run(s)
	})
	if !going { // the runtime is closed
		close(l.ended)
	}
}

func newListening(ctx context.Context, dir string) (*listening, error) {
	c, err := dialAlone(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := c.askAlone(&wire.Message{Type: wire.Listen, Partial: true}); err != nil {
		return nil, err
	}
	return &listening{c: c.c, r: wire.NewLineReader(c.r.Rest()), ended: make(chan struct{})}, nil
}

func (l *listening) run(s *slot) {
	defer close(l.ended)
	defer l.c.Close()
	for {
		line, err := l.r.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				s.r.log.Warn("lines of output are lost", "path", s.path, "error", err)
			}
			return
		}
		s.r.output(s.path, line.Incarnation, line.Line)
		l.mu.Lock()
		l.passed++
		if l.reached != nil && l.passed >= l.target {
			close(l.reached)
			l.reached = nil
		}
		if l.last {
			l.c.SetReadDeadline(time.Now().Add(callTimeout))
		}
		l.mu.Unlock()
	}
}

// await waits until n lines were passed on, for at most lineTimeout.
func (l *listening) await(n uint64) {
	l.mu.Lock()
	if l.passed >= n {
		l.mu.Unlock()
		return
	}
	if l.reached == nil {
		l.reached = make(chan struct{})
		l.target = 0
	}
	l.target = max(l.target, n)
	reached := l.reached
	l.mu.Unlock()
	select {
	case <-reached:
	case <-l.ended:
	case <-time.After(lineTimeout):
	}
}

// drain waits for the last line of a shim that ends. Options.Output may take as long as it
// needs.
func (l *listening) drain() {
	l.mu.Lock()
	l.last = true
	l.c.SetReadDeadline(time.Now().Add(callTimeout))
	l.mu.Unlock()
	<-l.ended
}

// awaitLines waits for the lines that came before a state.
func (s *slot) awaitLines(st *wire.State) {
	if l := s.listening(); l != nil && st.Told > 0 {
		l.await(st.Told)
	}
}

// drain waits for the last lines of the slot in dir, whose shim ends.
func (r *Runtime) drain(dir string) {
	s := r.owners.slot(filepath.Base(dir))
	if s == nil {
		return
	}
	if l := s.listening(); l != nil {
		l.drain()
	}
}

// listening returns the listener of the slot; nil if there is none.
func (s *slot) listening() *listening {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener
}
