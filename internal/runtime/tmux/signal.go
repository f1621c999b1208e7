package tmux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

// Stop asks the agent and all its processes to end. They are killed after its grace period.
func (ses *session) Stop() { ses.StopWithin(0) }

// StopWithin is Stop with another grace period, if that is longer.
func (ses *session) StopWithin(extended time.Duration) {
	ses.mu.Lock()
	again := ses.stopped
	ses.stopped, ses.rec.Asked.Stop = true, true
	ses.rec.Asked.Note(ses.rec.stopSignal())
	if !again && !ses.hasEnded() {
		if grace := ses.rec.grace(); grace >= 0 {
			ses.killTimer = time.AfterFunc(max(grace, extended), ses.Kill)
		}
	}
	ses.mu.Unlock()
	if !again {
		ses.slot.r.Background(func() { ses.deliver(ses.rec.stopSignal()) })
	}
}

// Kill kills the agent and all its processes.
func (ses *session) Kill() {
	ses.mu.Lock()
	ses.rec.Asked.Kill = true
	ses.rec.Asked.Note(syscall.SIGKILL)
	ses.mu.Unlock()
	ses.cancel()
	ses.slot.r.Background(func() { ses.deliver(syscall.SIGKILL) })
}

// noteTimeout bounds the delay of a signal until it is recorded that it was requested.
const noteTimeout = 300 * time.Millisecond

// deliver records the requests so far, so that another daemon understands the end, and sends a
// signal.
func (ses *session) deliver(sig syscall.Signal) {
	if ses.hasEnded() {
		return
	}
	ses.mu.Lock()
	asked := ses.rec.Asked
	ses.mu.Unlock()
	ses.update(ses.slot.r.Ctx, func(rec *record) { rec.Asked = asked })
	ses.signalKin(sig)
}

// update changes the state file of the slot, if it still belongs to this incarnation.
func (ses *session) update(ctx context.Context, change func(*record)) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	unlock, err := ses.slot.lock(ctx)
	if err == nil {
		defer unlock()
		var rec *record
		if rec, err = readRecord(ses.slot.dir); err == nil && rec.Incarnation == ses.rec.Incarnation {
			change(rec)
			err = rec.write(ses.slot.dir)
		}
	}
	if err != nil && ctx.Err() == nil {
		ses.slot.r.log.Warn("cannot write the state of a slot", "path", ses.slot.path, "error", err)
	}
}

// signalKin sends a signal to the agent and to each of its processes, once. Suspended processes
// are continued, so that the signal takes effect. The processes are remembered: those that are
// left when the agent has ended, and its grace period is over, are killed.
func (ses *session) signalKin(sig syscall.Signal) {
	kin := proc.Family(ses.rec.Agent)
	if kin == nil {
		kin, _ = ses.rest()
	}
	ses.mu.Lock()
	ses.kin = append(ses.kin, kin...)
	ses.mu.Unlock()
	for _, id := range kin {
		id.Signal(sig)
	}
	if sig != syscall.SIGKILL {
		for _, id := range kin {
			id.Signal(syscall.SIGCONT)
		}
	}
}

// rest lists what still runs of an agent whose process has ended.
func (ses *session) rest() ([]proc.Identity, error) {
	ses.mu.Lock()
	kin := slices.Clone(ses.kin)
	ses.mu.Unlock()
	return proc.Leftovers(ses.rec.Agent, kin)
}

// awaitRest gives the remaining processes of a stopped agent the rest of its grace period.
func (ses *session) awaitRest() {
	ses.mu.Lock()
	asked, hasTimer := ses.rec.Asked.Stop, ses.stopped
	ses.mu.Unlock()
	if !asked && pane.Expired(ses.slot.dir, ses.rec.Incarnation) == nil {
		return
	}
	ctx := ses.killed
	if !hasTimer { // an earlier daemon or the keeper has stopped it, and does not call Kill
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(0, ses.rec.grace()))
		defer cancel()
	}
	proc.AwaitLeftovers(ctx, ses.rest)
}

// Signal sends a signal to the agent alone.
func (ses *session) Signal(_ context.Context, sig syscall.Signal) error {
	if ses.hasEnded() {
		return runtime.ErrEnded
	}
	if sig <= 0 || sig > 64 {
		return fmt.Errorf("there is no signal %d", int(sig))
	}
	ses.mu.Lock()
	ses.rec.Asked.Note(sig)
	ses.mu.Unlock()
	err := ses.rec.Agent.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return runtime.ErrEnded
	}
	return err
}
