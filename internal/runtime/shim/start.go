package shim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/supervisor"
)

// Start creates a session of a new incarnation, once its process exists.
func (s *slot) Start(ctx context.Context, l runtime.Launch) (slots.Session, error) {
	if l.Incarnation == 0 {
		return nil, errors.New("incarnations are numbered from 1")
	}
	if !filepath.IsAbs(l.Dir) {
		dir, err := filepath.Abs(l.Dir)
		if err != nil {
			return nil, err
		}
		l.Dir = dir
	}
	if l.Token == "" {
		l.Token = rand.Text()
	}
	l, files, err := s.withFiles(l)
	if err != nil {
		return nil, err
	}
	packed, err := wire.NewLaunch(l)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", proc.ErrCommand, err)
	}
	request := wire.Message{Type: wire.Start, Incarnation: l.Incarnation, Token: l.Token}
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.release()
	defer s.settle()
	s.r.groups.enable()
	for tries := 0; ; tries++ {
		if request.Launch, request.Again = packed, 0; files != nil {
			s.dropIdle() // a new link tells the state of the slot, in which nothing may run when they are written
		}
		link, has, err := s.open(ctx, &request)
		if err != nil {
			return nil, err
		}
		if has == slotFree {
			if err := s.writeFiles(l.Incarnation, files); err != nil {
				s.park(link)
				return nil, err
			}
		}
		s.listen()
		ses := newSession(s, l.Incarnation)
		ses.grace = max(0, l.Grace)
		ses.connect(link)
		if has == slotHasIt {
			ses.watch(link, true) // sets the state
			return ses, nil
		}
		if why := link.conn.unfit(l); why != "" {
			ses.abandon()
			_, err := link.call(ctx, wire.Message{Type: wire.Quit})
			link.close(slots.ErrClosed)
			if err != nil && !errors.Is(err, errLinkLost) || tries >= 3 {
				return nil, fmt.Errorf("%w: the shim is %s, and does not leave the slot: %w", runtime.ErrUnknown, why,
					errors.Join(err, errSilent))
			}
			continue
		}
		if s.launchedBy == link && reflect.DeepEqual(wire.Again(s.launched, l.Incarnation, l.Token), l) {
			request.Launch, request.Again = nil, s.launched.Incarnation
		}
		s.launchedBy = nil
		if l.Program == nil {
			request.Group = s.prepareGroup(l.Limits)
		}
		// Not with ctx: a start that is given up is stopped, see StartReady.
		answer, err := link.call(s.r.Ctx, request)
		switch {
		case err == nil && answer.State != nil:
			s.launched, s.launchedBy = l, link
			ses.watch(link, false)
			return ses, nil
		case err == nil:
			err = fmt.Errorf("%w: answer without a state", runtime.ErrUnknown)
		case (errors.Is(err, errLinkLost) || errors.Is(err, wire.ErrClosing)) && tries < 3:
			ses.abandon()
			link.close(errLinkLost)
			continue
		case errors.Is(err, errLinkLost):
			err = fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
		}
		ses.abandon()
		s.park(link)
		return nil, err
	}
}

// found says what a start has found in its slot.
type found uint8

const (
	slotFree  found = iota
	slotHasIt       // the shim has carried out the start already, before the connection of the request was lost
	slotTaken       // the shim will refuse the start, as it serves another incarnation
)

// open connects to the shim of the slot, and starts one if there is none.
func (s *slot) open(ctx context.Context, request *wire.Message) (l *link, has found, err error) {
	if l := s.unpark(); l != nil {
		return l, slotFree, nil
	}
	if err := wire.MakeDir(s.dir); err != nil {
		return nil, slotFree, err
	}
	if err := slots.Restore(s.dir); err != nil {
		s.r.log.Warn("an earlier log is lost", "path", s.path, "error", err)
	}
	l, st, lock, err := s.find(ctx)
	if err != nil {
		return nil, slotFree, err
	}
	if lock != nil {
		defer lock.Close()
		if st, err = s.conclude(ctx); err != nil {
			return nil, slotFree, err
		}
		if st.Token == request.Token {
			return nil, slotFree, fmt.Errorf("%w: %w", supervisor.ErrNotReady, st.End.Exit().Err)
		}
		if request.Incarnation <= st.Incarnation && !request.Launch.ResetNumbering {
			return nil, slotFree, fmt.Errorf("%w: the last incarnation of the slot is %d", runtime.ErrStale,
				st.Incarnation)
		}
		if l, err = s.spawn(ctx, &request.Launch.Launch, lock); err != nil {
			return nil, slotFree, err
		}
	} else {
		s.setShim(st.Shim)
	}
	if s.r.Ctx.Err() != nil {
		l.close(slots.ErrClosed)
		return nil, slotFree, slots.ErrClosed
	}
	switch {
	case st.Incarnation == request.Incarnation && st.Token == request.Token:
		has = slotHasIt
	case lock == nil && st.Incarnation > 0 && (st.End == nil ||
		request.Incarnation <= st.Incarnation && !request.Launch.ResetNumbering):
		has = slotTaken
	}
	return l, has, nil
}
