package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// sup is a supervisor of the library behind a mailbox like that of Erlang.
type sup struct {
	session   *session
	handle    *supervisor.Supervisor
	startSpec supervisor.Spec // the specification it was started with
	simple    bool            // startSpec.Strategy is SimpleOneForOne
	// guarded by the world's lock:
	calling  bool              // a call is being handled: a start that fails is its result
	inbox    []message         // messages that are not delivered yet
	children map[string]*child // the last incarnation of each ID in the library
	held     map[string]chan struct{}
}

// message is an exit or a call for a supervisor.
type message struct {
	deliver  func()
	deferred bool // a start, which the library puts off until a restart is over
}

// activity is the current activity of a supervisor.
type activity int

const (
	idle    activity = iota // waits for a message
	stuck                   // waits without a timeout for a child to stop
	waiting                 // waits with a timeout for a child to stop
	busy                    // will continue immediately
)

// activity asks the library, which answers after all messages it got before, and checks the state
// of the children.
func (s *sup) activity() (activity, error) {
	seen := s.session.count()
	infos, err := s.handle.Children()
	if errors.Is(err, supervisor.ErrNoSupervisor) {
		<-s.handle.Done()
		return idle, nil
	} else if err != nil {
		return idle, fmt.Errorf("listing the children: %w", err)
	}
	return s.activityOf(infos, seen), nil
}

// activityOf returns the activity according to the children that were listed when the trace had
// seen events. If it has more now, the list may name processes that have been replaced since.
func (s *sup) activityOf(infos []supervisor.ChildInfo, seen int) activity {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if len(s.session.trace) != seen {
		return busy
	}
	now, pending := idle, false
	for _, info := range infos {
		c := s.children[info.ID]
		switch info.State {
		case supervisor.Running:
			if c.released {
				return busy // it has not heard of that yet
			}
		case supervisor.Starting:
			if s.held[info.ID] == nil {
				return busy
			}
		case supervisor.Stopping:
			switch {
			case !c.slow || c.dead:
				return busy
			case c.timed:
				now = waiting
			default:
				now = max(now, stuck)
			}
		case supervisor.Restarting, supervisor.Waiting:
			pending = true // its own turn, or that of those before it
		}
	}
	if pending && now == idle && len(s.held) == 0 {
		return busy
	}
	return now
}

// awaitMailbox delays the retry of a failed restart until the mailbox is empty: the supervisor of
// Erlang sends itself a message to try again.
func (s *sup) awaitMailbox(ctx context.Context, id string) {
	if s.calling || len(s.inbox) == 0 {
		return
	}
	hold := make(chan struct{})
	s.held[id] = hold
	s.session.signal()
	s.session.mu.Unlock()
	select {
	case <-hold:
	case <-ctx.Done():
	}
	s.session.mu.Lock()
	delete(s.held, id)
}

// isHeld reports whether the retry of that ID is delayed.
func (s *sup) isHeld(id string) bool {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	return s.held[id] != nil
}

// heldCount returns the number of delayed retries.
func (s *sup) heldCount() int {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	return len(s.held)
}

// next removes the next message from the mailbox. If there is none, it lets retries continue.
func (s *sup) next() func() {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if len(s.inbox) > 0 && !(s.inbox[0].deferred && len(s.held) > 0) {
		m := s.inbox[0]
		s.inbox = s.inbox[1:]
		return m.deliver
	}
	if len(s.held) > 0 {
		s.session.diverges = s.session.diverges || len(s.inbox) > 0
		for id, hold := range s.held {
			close(hold)
			delete(s.held, id)
		}
		return func() {}
	}
	return nil
}

// Timing of the runner.
const (
	poll        = 200 * time.Microsecond // events wake it earlier
	busyTimeout = time.Minute            // after which a busy supervisor is an error
)

// deliverAll delivers messages until all supervisors wait for time or for the script.
func (w *session) deliverAll() (activity, error) {
	for start := time.Now(); time.Since(start) < busyTimeout; {
		now, delivered := idle, false
		for _, s := range w.sups {
			a, err := s.activity()
			if err != nil {
				return a, err
			}
			if a == idle {
				if f := s.next(); f != nil {
					f()
					delivered = true
				}
			}
			now = max(now, a)
		}
		if !delivered && now != busy {
			return now, nil
		}
		if !delivered {
			w.pause(poll)
		}
	}
	return busy, fmt.Errorf("still busy after %v", busyTimeout)
}

// pause waits until something happens, but no longer than d.
func (w *session) pause(d time.Duration) {
	select {
	case <-w.wake:
	case <-time.After(d):
	}
}

// Erlang's runner of scripts takes it for quiet when nothing has happened in
// so many rounds; its sleep of 3 ms takes 4.
const (
	quietRounds = 3
	quietRound  = 4 * time.Millisecond
)

// waitQuiet waits until nothing happens. Usually that is certain. Only if a child is slow to
// stop, it depends on time, and then on the same time as in Erlang, where the script also
// continues.
func (w *session) waitQuiet() error {
	seen := w.count()
	w.mu.Lock()
	if w.sent != nil {
		w.sent()
		w.sent = nil
	}
	w.mu.Unlock()
	round := w.quietAt // so that delays do not add up
	w.quietAt = time.Time{}
	if round.IsZero() {
		round = time.Now()
	}
	for quiet := 0; quiet < quietRounds; {
		w.reportEnd()
		round = round.Add(quietRound)
		a, err := w.deliverUntil(round)
		if err != nil {
			return err
		}
		if a < waiting {
			w.reportEnd()
			return nil
		}
		if n := w.count(); n != seen {
			seen, quiet = n, 0
		} else {
			quiet++
		}
	}
	w.quietAt = round
	return nil
}

// deliverUntil delivers messages until end, or until nothing more can happen.
func (w *session) deliverUntil(end time.Time) (activity, error) {
	for {
		a, err := w.deliverAll()
		left := time.Until(end)
		if err != nil || a < waiting || left <= 0 {
			return a, err
		}
		w.pause(left)
	}
}

// call delivers f through the mailbox and waits until it has returned.
func (w *session) call(f func(), deferred bool) error {
	s, done := w.cur, false
	w.quietAt = time.Time{}
	w.mu.Lock()
	s.inbox = append(s.inbox, message{deferred: deferred, deliver: func() {
		s.setCalling(true)
		f()
		s.setCalling(false)
		done = true
	}})
	w.mu.Unlock()
	for {
		a, err := w.deliverAll()
		switch {
		case done || err != nil:
			return err
		case a == stuck:
			return errors.New("waits for ever for a child that does not stop")
		}
		w.pause(time.Millisecond)
	}
}

func (s *sup) setCalling(calling bool) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	s.calling = calling
}
