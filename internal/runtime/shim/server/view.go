package server

import (
	"cmp"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

const (
	maxPending = 256 << 10 // unread bytes before a viewer is dropped
	backlog    = 4 << 10   // bytes of earlier output for a new viewer
	maxEarlier = 128 << 10 // for one that asks for more
)

// view is a client that watches the output, or that wants to know when the log has grown. The
// writer of its connection empties it. It is guarded by output.mu.
type view struct {
	c          *conn
	slot       *slot
	run        uint64 // its incarnation
	follow     bool
	unfinished bool       // it watches unfinished lines only
	open       bool       // its request was answered
	size       *proc.Size // of the terminal, if the viewer does not know it yet
	pending    []byte
	grew       bool
	ended      bool
	slow       bool
}

func (v *view) add(b []byte) {
	switch {
	case v.unfinished:
		return
	case v.follow:
		v.grew = true
	case len(v.pending)+len(b) > maxPending:
		v.slow, v.pending = true, nil
	case !v.slow:
		v.pending = append(v.pending, b...)
	}
	v.c.nudge()
}

// watch makes c a view of the incarnation's output.
func (o *output) watch(c *conn, run *incarnation, m *wire.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := &view{
		c: c, slot: run.slot, run: run.number, follow: m.Type == wire.Follow, unfinished: m.Type == wire.Unfinished,
	}
	if m.Writer {
		if !run.input {
			return runtime.ErrUnsupported
		}
		if o.writer != nil && !o.writer.c.hungUp() {
			return runtime.ErrWriter
		}
		o.writer = v
	}
	switch {
	case v.follow || v.unfinished:
		v.grew = true
	case m.Earlier > 0:
		v.pending = o.log.Recent(min(m.Earlier, maxEarlier))
	default:
		v.pending = o.log.Tail(backlog)
	}
	if size, err := run.size(); err == nil && !v.follow && !v.unfinished {
		v.size = &size
	}
	if o.views == nil {
		o.views = make(map[*view]struct{})
	}
	o.views[v] = struct{}{}
	c.mu.Lock()
	c.view = v
	c.mu.Unlock()
	select {
	case <-run.ended: // end may have been called already
		v.ended = true
	default:
	}
	return nil
}

// take returns what the viewer has not seen, as a message.
func (o *output) take(v *view) (m *wire.Message, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m = &wire.Message{Incarnation: v.run}
	switch {
	case !v.open:
		return nil, false
	case v.slow:
		return nil, true
	case v.size != nil:
		m.Type, m.Rows, m.Cols = wire.Resize, v.size.Rows, v.size.Cols
		v.size = nil
	case len(v.pending) > 0:
		n := min(len(v.pending), wire.MaxData)
		m.Type, m.Data = wire.Output, v.pending[:n:n]
		if v.pending = v.pending[n:]; len(v.pending) == 0 {
			v.pending = nil
		}
	case v.grew && v.unfinished:
		v.grew, m.Type, m.Data = false, wire.Output, []byte(cmp.Or(o.unfinished[0], o.unfinished[1]))
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

// resized tells all views of the terminal its size.
func (o *output) resized(size proc.Size) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for v := range o.views {
		if !v.follow && !v.unfinished {
			v.size = &size
			v.c.nudge()
		}
	}
}

func (o *output) open(v *view) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v.open = true
	v.c.nudge()
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for v := range o.views {
		v.grew = v.grew || v.follow // by the mark of the end
		v.ended = true
		v.c.nudge()
	}
}

func (o *output) drop(v *view) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.views, v)
	if o.writer == v {
		o.writer = nil
	}
}

// isWriter reports whether a view may type.
func (o *output) isWriter(v *view) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writer == v
}
