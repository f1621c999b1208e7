package server

import (
	"cmp"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

const (
	maxBehind = 256 << 10 // bytes that a viewer may be behind before it is dropped
	backlog   = 4 << 10   // bytes that it sees of what was before
)

// view is somebody who looks at the output, or wants to know when there is
// more in the log. Its connection's writer empties it; server.viewMu guards it.
type view struct {
	c       *conn
	follow  bool
	begun   bool // it looks only at lines that have no end yet
	open    bool // it has been told that it may look
	pending []byte
	grew    bool
	ended   bool
	slow    bool
}

func (v *view) add(b []byte) {
	switch {
	case v.begun:
		return
	case v.follow:
		v.grew = true
	case len(v.pending)+len(b) > maxBehind:
		v.slow, v.pending = true, nil
	case !v.slow:
		v.pending = append(v.pending, b...)
	}
	v.c.nudge()
}

// watchOutput makes c a view of the incarnation's output.
func (s *server) watchOutput(c *conn, run *incarnation, m *wire.Message) error {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	v := &view{c: c, follow: m.Type == wire.Follow, begun: m.Type == wire.Unfinished}
	if m.Writer {
		if !run.input {
			return runtime.ErrUnsupported
		}
		if s.writer != nil && !s.writer.c.left() {
			return runtime.ErrWriter
		}
		s.writer = v
	}
	if v.follow || v.begun {
		v.grew = true
	} else {
		v.pending = s.log.Tail(backlog)
	}
	s.views[v] = struct{}{}
	c.view = v
	select {
	case <-run.ended: // endViews may have been there already
		v.ended = true
	default:
	}
	return nil
}

// take returns what the viewer has not seen, as a message.
func (v *view) take(s *server, incarnation uint64) (m *wire.Message, last bool) {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	m = &wire.Message{Incarnation: incarnation}
	switch {
	case !v.open:
		return nil, false
	case v.slow:
		return nil, true
	case len(v.pending) > 0:
		n := min(len(v.pending), wire.MaxData)
		m.Type, m.Data = wire.Output, v.pending[:n:n]
		if v.pending = v.pending[n:]; len(v.pending) == 0 {
			v.pending = nil
		}
	case v.grew && v.begun:
		v.grew, m.Type, m.Data = false, wire.Output, []byte(cmp.Or(s.begun[0], s.begun[1]))
	case v.grew:
		v.grew, m.Type = false, wire.Grew
	case v.ended:
		m.Type = wire.Ended
		return m, true
	default:
		return nil, false
	}
	return m, false
}

func (s *server) openView(v *view) {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	v.open = true
	v.c.nudge()
}

func (s *server) endViews() {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	for v := range s.views {
		v.grew = v.grew || v.follow // by the mark of the end
		v.ended = true
		v.c.nudge()
	}
}

func (s *server) dropView(v *view) {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	delete(s.views, v)
	if s.writer == v {
		s.writer = nil
	}
}
