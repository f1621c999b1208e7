package shim

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

const (
	// killTimeout is how long a shim may take to carry out a Kill, before it is
	// killed itself. It is well below supervisor.KillGrace.
	killTimeout = 3 * time.Second
	// lookTimeout is how long it may take for an answer after that.
	lookTimeout = time.Second
	// deliverPause is the time between two tries to deliver a Stop or Kill.
	deliverPause = 100 * time.Millisecond
)

// Stop asks the agent to end, now or as soon as its shim can be reached. It
// is killed when its grace period is over.
func (ses *session) Stop() { ses.want(wire.Stop) }

// StopWithin is Stop with another grace period, where that is longer.
func (ses *session) StopWithin(grace time.Duration) {
	ses.mu.Lock()
	if ses.wanted == "" {
		ses.stopGrace = grace
	}
	ses.mu.Unlock()
	ses.Stop()
}

// Kill makes the agent end, if need be by killing its shim.
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

// deliver repeats what is wanted until the shim has it or the agent has ended.
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
		if ses.overdue() {
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

// tell tries to deliver something once. A Kill does not wait behind a Stop
// that is not answered.
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

// overdue reports whether a Kill is wanted for so long that its shim has to go,
// too. The time begins again then.
func (ses *session) overdue() bool {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.killing.IsZero() || time.Since(ses.killing) < killTimeout {
		return false
	}
	ses.killing = time.Now()
	return true
}

// awaitEndOrAnswer waits for the end that follows on a Kill, and asks at a time
// whether the shim is still there to tell it: it may hang since it has answered.
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
