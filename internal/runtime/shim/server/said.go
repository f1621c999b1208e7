package server

import (
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// said is what the last incarnation has said of itself, and how far that was told.
type said struct {
	notice sdnotify.Notice
	pace   sdnotify.Pace
	due    *time.Timer // to the next telling; nil if there is none
	dueAt  time.Time
	news   bool // there is something to tell
}

// speak gives an incarnation a place to speak of itself, if it wants one.
func (s *server) speak(l *runtime.Launch, run *incarnation) (*proc.NotifySocket, error) {
	if !l.Notify && !l.Ready.Notify {
		return nil, nil
	}
	speaks, err := proc.ListenNotify("", func(n sdnotify.Notice, u sdnotify.Urgency) { s.hear(run, n, u) })
	if err != nil || l.User == nil {
		return speaks, err
	}
	if err := speaks.Admit(l.User.UID); err != nil {
		speaks.Close()
		return nil, err
	}
	return speaks, nil
}

// silence leaves the place of an incarnation that has ended to tidy.
func (s *server) silence(speaks *proc.NotifySocket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = append(s.silent, speaks)
}

// tidy removes the places of incarnations that have ended. That takes longer
// than all else that is done while an agent is down, and waits until it runs.
func (s *server) tidy() {
	s.mu.Lock()
	silent := s.silent
	s.silent = nil
	s.mu.Unlock()
	for _, speaks := range silent {
		speaks.Close()
	}
}

// hear takes in what an incarnation says, and tells it: not more often than
// a client wants to know it.
func (s *server) hear(run *incarnation, n sdnotify.Notice, u sdnotify.Urgency) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != run || u == sdnotify.Nothing {
		return
	}
	s.said.notice, s.said.news = n, true
	now := time.Now()
	wait := s.said.pace.Wait(u, now)
	at := now.Add(wait)
	switch {
	case wait <= 0:
		s.tellSaid(now)
	case s.said.due == nil:
		s.said.dueAt = at
		s.said.due = time.AfterFunc(wait, func() { s.tellLater(run) })
	case at.Before(s.said.dueAt):
		s.said.dueAt = at
		s.said.due.Reset(wait)
	}
}

func (s *server) tellLater(run *incarnation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == run && s.said.news {
		s.tellSaid(time.Now())
	}
}

// tellSaid sends what was said to everybody. Needs mu.
func (s *server) tellSaid(now time.Time) {
	s.said.pace.Told(now)
	s.broadcast(&wire.Message{Type: wire.Said, Incarnation: s.state.Incarnation, Said: s.said.untold()})
}

// untold is what there is to tell, which is told with that; nil if nothing is.
func (d *said) untold() *wire.Notice {
	if !d.news {
		return nil
	}
	d.news = false
	if d.due != nil {
		d.due.Stop()
		d.due = nil
	}
	return wire.NewNotice(d.notice, time.Now())
}
