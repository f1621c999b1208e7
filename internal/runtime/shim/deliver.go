package shim

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

const (
	// killTimeout is the time that a shim has to carry out a Kill before it is continued and, if it
	// does not answer, killed itself. It is well below supervisor.KillGrace.
	killTimeout = 3 * time.Second
	// lookTimeout bounds its answer after that.
	lookTimeout = time.Second
	// deliverPause is the time between two tries to deliver a Stop or Kill.
	deliverPause = 100 * time.Millisecond
)

// Stop asks the agent to end as soon as its shim can be reached. It is killed after its grace
// period.
func (ses *session) Stop() { ses.want(wire.Stop) }

// StopWithin is Stop with another grace period, if that is longer.
func (ses *session) StopWithin(grace time.Duration) {
	ses.mu.Lock()
	if ses.wanted == "" {
		ses.stopGrace = grace
	}
	ses.mu.Unlock()
	ses.Stop()
}

// Kill makes the agent end, if necessary by killing its shim, with all agents of that.
func (ses *session) Kill() { ses.want(wire.Kill) }

func (ses *session) want(what string) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.wanted != wire.Kill {
		ses.wanted = what
	}
	if what == wire.Kill && ses.killing.IsZero() {
		ses.killing = time.Now()
		if ses.cancelStop != nil {
			ses.cancelStop()
		}
	}
	if !ses.delivers {
		ses.delivers = true
		ses.slot.r.Background(ses.deliver)
	}
}

// deliver repeats the requested Stop or Kill until the shim has it or the agent has ended.
func (ses *session) deliver() {
	for {
		ses.mu.Lock()
		what := ses.wanted
		if what == ses.delivered {
			ses.delivers = false
			ses.mu.Unlock()
			return
		}
		changed := ses.changed
		ses.mu.Unlock()
		if ses.tryDeliver(what) {
			continue
		}
		if ses.overdue() && !ses.continues() {
			ses.killShim()
		}
		select {
		case <-changed:
		case <-time.After(deliverPause):
		case <-ses.done:
			return
		case <-ses.slot.r.Ctx.Done():
			return
		}
	}
}

// tryDeliver tries to deliver a request once. A Kill does not wait behind an unanswered Stop.
func (ses *session) tryDeliver(what string) (delivered bool) {
	ses.mu.Lock()
	if ses.link == nil || what != ses.wanted {
		ses.mu.Unlock()
		return false
	}
	ctx, cancel := context.WithTimeout(ses.slot.r.Ctx, killTimeout)
	defer cancel()
	if what == wire.Stop {
		ses.cancelStop = cancel
	}
	killing, m := ses.killing, wire.Message{Type: what}
	if what == wire.Stop {
		m.Grace = int64(ses.stopGrace)
	}
	ses.mu.Unlock()
	_, err := ses.request(ctx, m)
	if err == nil && what == wire.Kill {
		err = ses.awaitEndOrAnswer(killing.Add(killTimeout))
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.cancelStop = nil
	if err == nil || errors.Is(err, runtime.ErrEnded) || errors.Is(err, runtime.ErrStale) {
		ses.delivered = what
		return true
	}
	return false
}

// overdue reports whether a Kill was requested so long ago that its shim must be killed, too.
// After that the time starts again.
func (ses *session) overdue() bool {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.killing.IsZero() || time.Since(ses.killing) < killTimeout {
		return false
	}
	ses.killing = time.Now()
	return true
}

// continues continues a shim that may be stopped, and reports whether it answers then. One that does
// has other agents, and is not killed: it carries out what it was asked for.
func (ses *session) continues() bool {
	ses.mu.Lock()
	shim := ses.state.Shim
	ses.mu.Unlock()
	shim.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(ses.slot.r.Ctx, lookTimeout)
	defer cancel()
	_, err := ses.request(ctx, wire.Message{Type: wire.Look})
	return err == nil || errors.Is(err, runtime.ErrEnded)
}

// awaitEndOrAnswer waits for the end after a Kill. At a given time it asks whether the shim can
// still report it, because the shim may hang after its answer.
func (ses *session) awaitEndOrAnswer(at time.Time) error {
	select {
	case <-ses.done:
		return nil
	case <-ses.slot.r.Ctx.Done():
		return nil
	case <-time.After(time.Until(at)):
	}
	ctx, cancel := context.WithTimeout(ses.slot.r.Ctx, lookTimeout)
	defer cancel()
	_, err := ses.request(ctx, wire.Message{Type: wire.Look})
	return err
}
