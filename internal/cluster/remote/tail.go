package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// logTimeout bounds a request for a part of a log: people wait for it.
const logTimeout = 3 * time.Second

// Tail reads the log of a slot on the node, as logfile.Tail reads one of this machine. Each call asks the node for the
// part after the last line, so nothing is missed or repeated after an error, and the node keeps nothing. An error
// wraps runtime.ErrUnknown while the node does not answer.
type Tail struct {
	r     *Runtime
	ctx   context.Context
	path  string
	start message.LogStart
	mark  logfile.Mark
}

var _ logfile.Reader = (*Tail)(nil)

// Tail returns a reader of the log of a slot. It works until ctx ends.
func (r *Runtime) Tail(ctx context.Context, path string, s logfile.Start) *Tail {
	t := &Tail{r: r, ctx: ctx, path: path, start: message.LogStart{Since: s.Since, Lines: s.Lines}}
	if s.After != nil {
		t.move(*s.After)
	}
	return t
}

// Some implements logfile.Reader.
func (t *Tail) Some(emit func(logfile.Line)) (more bool, err error) {
	part, err := t.ask(false)
	if err != nil {
		return false, err
	}
	return part.More && len(part.Lines) > 0, t.emit(part, emit)
}

// Rest implements logfile.Reader.
func (t *Tail) Rest(emit func(logfile.Line)) {
	if part, err := t.ask(true); err == nil {
		_ = t.emit(part, emit) // what is damaged is not emitted
	}
}

// Mark implements logfile.Reader.
func (t *Tail) Mark() logfile.Mark { return t.mark }

// Close implements logfile.Reader.
func (t *Tail) Close() {}

// move notes the position after which to read.
func (t *Tail) move(m logfile.Mark) {
	t.mark = m
	t.start = message.LogStart{After: m.String()}
}

// ask asks the node for the next part.
func (t *Tail) ask(rest bool) (*message.LogPart, error) {
	req, err := t.r.request(message.OpLog, t.path)
	if err != nil {
		return nil, err
	}
	req.Fence = nil
	start := t.start
	start.Rest = rest
	req.Log = &start
	late := fmt.Errorf("%w: node %s has not answered within %v", runtime.ErrUnknown, t.r.c.o.Node, logTimeout)
	ctx, cancel := context.WithTimeoutCause(t.ctx, logTimeout, late)
	defer cancel()
	ctx, end := t.r.both(ctx)
	defer end()
	if err := t.r.c.isLongSilent(); err != nil {
		return nil, err
	}
	a, err := t.r.c.ask(ctx, req, true, nil)
	switch {
	case err != nil:
		return nil, err
	case a.Log == nil:
		return nil, fmt.Errorf("node %s has answered without a part of the log", t.r.c.o.Node)
	}
	return a.Log, nil
}

// emit emits the lines of a part.
func (t *Tail) emit(p *message.LogPart, emit func(logfile.Line)) error {
	for i := range p.Lines {
		l, mark, err := p.Lines[i].Line()
		if err != nil {
			return fmt.Errorf("reading a log on node %s: %w", t.r.c.o.Node, err)
		}
		t.move(mark)
		emit(l)
	}
	end, err := logfile.ParseMark(p.Mark)
	if err != nil {
		return fmt.Errorf("reading a log on node %s: the answer is damaged: %w", t.r.c.o.Node, err)
	}
	t.move(end)
	return nil
}

// isLongSilent returns an error if there has been no connection for longer than a request would wait for one.
func (c *Client) isLongSilent() error {
	var silent *silentError
	if err := c.silent(); errors.As(err, &silent) && time.Since(silent.since) > patience {
		if l, _ := c.current(); l == nil {
			return err
		}
	}
	return nil
}
