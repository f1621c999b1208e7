package server

import (
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// said is what the last incarnation has reported about itself, and how far clients know it.
type said struct {
	notice sdnotify.Notice
	pace   sdnotify.Pace
	due    *time.Timer // for the next report; nil if there is none
	dueAt  time.Time
	news   bool // there is something to report
}

// listenNotify creates the notify socket of an incarnation, if it wants one.
func (run *incarnation) listenNotify(l *runtime.Launch) (*ready.NotifySocket, error) {
	if !l.Notify && !l.Ready.Notify {
		return nil, nil
	}
	notify, err := ready.ListenNotify("", run.onNotice)
	if err != nil || l.User == nil {
		return notify, err
	}
	if err := notify.Admit(l.User.UID); err != nil {
		notify.Close()
		return nil, err
	}
	return notify, nil
}

// unused holds the sockets of incarnations that have ended. Removing them takes longer than all
// else that is done while an agent is down, so it waits until the agent runs.
type unused struct {
	mu      sync.Mutex
	sockets []*ready.NotifySocket
}

func (u *unused) add(socket *ready.NotifySocket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sockets = append(u.sockets, socket)
}

func (u *unused) close() {
	u.mu.Lock()
	sockets := u.sockets
	u.sockets = nil
	u.mu.Unlock()
	for _, socket := range sockets {
		socket.Close()
	}
}

// onNotice handles a report of an incarnation. It passes reports on at a limited rate.
func (run *incarnation) onNotice(n sdnotify.Notice, u sdnotify.Urgency) {
	s := run.slot
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
		s.broadcastNotice(now)
	case s.said.due == nil:
		s.said.dueAt = at
		s.said.due = time.AfterFunc(wait, run.broadcastLater)
	case at.Before(s.said.dueAt):
		s.said.dueAt = at
		s.said.due.Reset(wait)
	}
}

func (run *incarnation) broadcastLater() {
	s := run.slot
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == run && s.said.news {
		s.broadcastNotice(time.Now())
	}
}

// broadcastNotice sends the report to all clients. Needs mu.
func (s *slot) broadcastNotice(now time.Time) {
	s.said.pace.Told(now)
	s.broadcast(&wire.Message{Type: wire.Said, Incarnation: s.state.Incarnation, Said: s.said.takeNews()})
}

// takeNews returns what clients do not know yet; nil if there is nothing.
func (d *said) takeNews() *wire.Notice {
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
