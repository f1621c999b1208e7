package remote

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
)

const (
	deliverTimeout = 5 * time.Second // for the node to answer to a stop or kill
	deliverPause   = time.Second     // between two tries on one connection
)

// Stop is part of runtime.Session.
func (s *session) Stop() { s.StopWithin(0) }

// StopWithin is Stop with another grace period, if that is longer.
func (s *session) StopWithin(grace time.Duration) { s.want(message.OpStop, grace) }

// Kill is part of runtime.Session.
func (s *session) Kill() { s.want(message.OpKill, 0) }

func (s *session) want(op string, grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasEnded() || s.wanted == message.OpKill || s.wanted == op {
		return
	}
	first := s.wanted == ""
	s.wanted, s.grace = op, grace
	if s.cancelStop != nil { // a kill does not wait behind it
		s.cancelStop()
	}
	if first {
		s.r.c.background(s.deliver)
		return
	}
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// deliver has the node stop or kill the incarnation, until that has ended. A node that is reached again may have
// another daemon, which does not know it yet, so each connection delivers it.
func (s *session) deliver() {
	var delivered string
	var by *link
	for !s.hasEnded() {
		l, changed := s.r.c.current()
		s.mu.Lock()
		op := s.wanted
		s.mu.Unlock()
		var again <-chan time.Time
		if l != nil && (delivered != op || by != l) {
			if s.tryDeliver(l, op) {
				delivered, by = op, l
				continue
			}
			again = time.After(deliverPause)
		}
		select {
		case <-changed:
		case <-s.poke:
		case <-again:
		case <-s.done:
		case <-s.r.c.ctx.Done():
			return
		}
	}
}

// tryDeliver tries to deliver a request once.
func (s *session) tryDeliver(l *link, op string) bool {
	s.mu.Lock()
	if op != s.wanted {
		s.mu.Unlock()
		return false
	}
	ctx, cancel := context.WithTimeout(s.r.c.ctx, deliverTimeout)
	defer cancel()
	if op == message.OpStop {
		s.cancelStop = cancel
	}
	grace := s.grace
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancelStop = nil
	}()
	leave, err := s.r.c.enter(ctx, s.r.c.calls)
	if err != nil {
		return false
	}
	r := s.request(op)
	r.Grace = grace
	c, err := l.begin(r, leave, nil)
	if err == nil {
		err = l.finish(ctx, c)
	}
	return err == nil || isOver(err)
}

// isOver reports whether a request has failed because the incarnation has ended.
func isOver(err error) bool {
	return errors.Is(err, runtime.ErrEnded) || errors.Is(err, runtime.ErrStale) || errors.Is(err, fs.ErrNotExist)
}

// isTemporary reports whether a request may succeed later.
func isTemporary(err error) bool { return errors.Is(err, runtime.ErrUnknown) }

// reconnected returns a channel that is closed when there is another connection, or none.
func (c *Client) reconnected() <-chan struct{} {
	_, changed := c.current()
	return changed
}
