package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// stopWithiner is a session that can be given another grace period than its own.
type stopWithiner interface{ StopWithin(time.Duration) }

// screener is a session that can tell the screen of its terminal.
type screener interface {
	Screen(ctx context.Context, n int) ([]string, bool)
}

// carryOut carries out a request and returns the answer.
func (c *conn) carryOut(ctx context.Context, req *message.Request) *outgoing {
	o := new(outgoing)
	err := c.do(ctx, req, o)
	if err != nil {
		*o = outgoing{Answer: message.Answer{Failure: message.NewFailure(err)}}
	}
	return o
}

func (c *conn) do(ctx context.Context, req *message.Request, o *outgoing) (err error) {
	switch req.Op {
	case message.OpList, message.OpRemoved, message.OpPeek, message.OpScreen, message.OpLog, message.OpFile:
		select {
		case c.lookups <- struct{}{}:
			defer func() { <-c.lookups }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case message.OpActivity, message.OpFollow, message.OpUnfinished:
	default:
		if err := c.s.check(ctx, req.Fence); err != nil {
			return err
		}
	}
	switch req.Op {
	case message.OpList, message.OpRemoved, message.OpPeek, message.OpScreen:
		return c.query(ctx, req, o)
	case message.OpLog:
		o.Log, err = c.s.readLog(ctx, req)
		return err
	case message.OpFile:
		o.Data, err = c.s.readFile(ctx, req)
		return err
	case message.OpStart:
		o.of, err = c.s.start(ctx, req)
		return err
	case message.OpExec:
		return c.exec(ctx, req, o)
	case message.OpAdopt:
		o.of, err = c.s.adopt(ctx, req.Slot())
		return err
	case message.OpReady, message.OpRemove:
		r, err := c.s.runtime(req.Kind)
		if err != nil {
			return err
		}
		if req.Op == message.OpReady {
			return r.Ready(ctx, req.Path, req.Incarnation)
		}
		return r.Remove(ctx, req.Path)
	}
	h, err := c.s.lookup(ctx, req.Ref)
	if err != nil {
		return err
	}
	return c.ask(ctx, h, req, o)
}

// ask carries out a request about a session.
func (c *conn) ask(ctx context.Context, h *held, req *message.Request, o *outgoing) error {
	switch req.Op {
	case message.OpStop:
		if s, ok := h.session.(stopWithiner); ok && req.Grace > 0 {
			s.StopWithin(req.Grace)
		} else {
			h.session.Stop()
		}
		return nil
	case message.OpKill:
		h.session.Kill()
		return nil
	case message.OpSignal:
		return h.session.Signal(ctx, req.Signal.Local())
	case message.OpWrite:
		if len(req.Data) > message.MaxData {
			return fmt.Errorf("%d bytes of input at once; at most %d are possible", len(req.Data), message.MaxData)
		}
		return h.session.Write(ctx, req.Data)
	case message.OpResize:
		return h.session.Resize(ctx, req.Rows, req.Cols)
	case message.OpActivity:
		at, err := h.session.LastActivity(ctx)
		if err != nil {
			return err
		}
		if o.of = h; !at.IsZero() {
			age := time.Since(at)
			o.Age = &age
		}
		return nil
	case message.OpFollow:
		change, end := c.stream(req.ID)
		defer end()
		return h.session.Follow(ctx, func() { change("") })
	case message.OpUnfinished:
		u, ok := h.session.(runtime.Unfinished)
		if !ok {
			return runtime.ErrUnsupported
		}
		change, end := c.stream(req.ID)
		defer end()
		return u.Unfinished(ctx, func(text string) { change(last(text, maxTexts)) })
	}
	return fmt.Errorf("%w: the node does not know the request %.40q", runtime.ErrUnsupported, req.Op)
}

// start starts an incarnation.
func (s *Server) start(ctx context.Context, req *message.Request) (*held, error) {
	if req.Token == "" {
		return nil, errors.New("a start on another node needs a token")
	}
	r, err := s.runtime(req.Kind)
	if err != nil {
		return nil, err
	}
	l, err := req.Launch.Unpack()
	if err != nil {
		return nil, err
	}
	l.Path, l.Incarnation, l.Token = req.Path, req.Incarnation, req.Token
	if s.ctx.Err() != nil {
		return nil, errServerClosed
	}
	if err := s.checkLease(&l); err != nil {
		return nil, err
	}
	if err := s.o.Localize(&l); err != nil {
		return nil, fmt.Errorf("%w: %w", proc.ErrCommand, err)
	}
	session, err := r.Start(ctx, l)
	if err != nil {
		return nil, err
	}
	h := s.hold(req.Kind, session)
	if err := s.checkLease(&l); err != nil {
		// The lease that the controller knows has ended meanwhile: for it, the incarnation has, too.
		session.Kill()
		return nil, err
	}
	return h, nil
}

// checkLease returns an error if the node has another lease than the one under which an incarnation is to run.
func (s *Server) checkLease(l *runtime.Launch) error {
	switch epoch := s.o.Epoch(); {
	case epoch == 0:
		return runtime.ErrFenced
	case l.Lease != 0 && l.Lease != epoch:
		return fmt.Errorf("%w: it has epoch %d now, and the start is for epoch %d", runtime.ErrFenced, epoch, l.Lease)
	}
	return nil
}

const (
	maxTexts = 1 << 20 // bytes of lines or paths in a message
	maxList  = 100     // observations in a message
)

// query carries out requests that read much.
func (c *conn) query(ctx context.Context, req *message.Request, o *outgoing) error {
	r, err := c.s.runtime(req.Kind)
	if err != nil {
		return err
	}
	switch req.Op {
	case message.OpList:
		all, err := r.List(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		for len(all) > maxList {
			part := message.Answer{ID: req.ID, More: true}
			for _, one := range all[:maxList] {
				part.List = append(part.List, *message.NewState(req.Kind, one, now))
			}
			all = all[maxList:]
			if err := c.send(&outgoing{Answer: part}); err != nil {
				return err
			}
		}
		for _, one := range all {
			o.List = append(o.List, *message.NewState(req.Kind, one, now))
		}
		return nil
	case message.OpRemoved:
		all, err := r.Removed()
		if err != nil {
			return err
		}
		for size, n := 0, 0; n < len(all); n++ {
			if size += len(all[n]); size > maxTexts {
				part := message.Answer{ID: req.ID, More: true, Texts: all[:n]}
				if err := c.send(&outgoing{Answer: part}); err != nil {
					return err
				}
				all, size, n = all[n:], len(all[n]), 0
			}
		}
		o.Texts = all
		return nil
	}
	h, err := c.s.lookup(ctx, req.Ref)
	switch {
	case req.Op == message.OpPeek && (errors.Is(err, runtime.ErrStale) || errors.Is(err, fs.ErrNotExist)):
		file, err := r.Log(req.Path) // it also has what an earlier incarnation has written
		if err != nil {
			return err
		}
		o.Texts, err = logfile.Peek(file, req.Lines)
		o.Texts = lastLines(o.Texts, maxTexts)
		return err
	case err != nil:
		return err
	case req.Op == message.OpPeek:
		o.Texts, err = h.session.Peek(ctx, req.Lines)
		o.Texts = lastLines(o.Texts, maxTexts)
		return err
	}
	if s, ok := h.session.(screener); ok && !slots.IsClosed(h.session.Done()) {
		o.Texts, o.Screen = s.Screen(ctx, req.Lines)
		o.Texts = lastLines(o.Texts, maxTexts)
	}
	return nil
}

// lastLines returns the last lines that together have at most n bytes; of the last one the end.
func lastLines(lines []string, n int) []string {
	for i := len(lines) - 1; i >= 0; i-- {
		if n -= len(lines[i]); n >= 0 {
			continue
		}
		if i == len(lines)-1 {
			return []string{last(lines[i], n+len(lines[i]))}
		}
		return lines[i+1:]
	}
	return lines
}

// last returns the last n bytes of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }
