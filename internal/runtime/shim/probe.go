package shim

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// This file is about agents that have ended while their shim is stopped or hangs.

// hangTimeout is the time that a shim has to answer, after its agent has ended and it was
// continued, before it counts as lost.
const hangTimeout = 10 * time.Second

var errHung = errors.New("its shim did not report how, and was killed because it did not respond")

// probe checks whether the agent has ended. It is called repeatedly. When it finds the agent
// dead for the second time, the shim should have reported that, and is asked.
func (ses *session) probe() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.hasEnded() {
		return
	}
	if ses.state.Agent == (proc.Identity{}) || !ses.state.Agent.Ended() {
		ses.dead = false
		return
	}
	if !ses.dead {
		ses.dead = true
		return
	}
	if !ses.asking && ses.link != nil {
		ses.asking = true
		ses.slot.r.Background(ses.askShim)
	}
}

// askShim gets the end of an agent from its shim, or kills the shim. What that leaves behind is
// killed before the loss is reported, see slot.conclude.
func (ses *session) askShim() {
	defer func() {
		ses.mu.Lock()
		defer ses.mu.Unlock()
		ses.asking = false
	}()
	if ses.answers(lookTimeout) {
		return // the shim waits for the rest of the agent
	}
	ses.mu.Lock()
	shim := ses.state.Shim
	ses.mu.Unlock()
	ses.slot.r.log.Warn("agent has ended and its shim does not respond; continuing the shim",
		"path", ses.slot.path, "pid", shim.PID)
	shim.Signal(syscall.SIGCONT)
	if !ses.answers(hangTimeout) {
		ses.slot.markHung(ses.number)
		ses.killShim()
	}
}

// answers reports whether the shim answers in time, or need not: its end is known, or its link
// is lost, which is handled elsewhere.
func (ses *session) answers(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ses.slot.r.Ctx, within)
	defer cancel()
	for {
		_, err := ses.request(ctx, wire.Message{Type: wire.Look})
		switch {
		case ctx.Err() != nil && err != nil:
			return ses.slot.r.Ctx.Err() != nil
		case !errors.Is(err, errSilent):
			return err == nil || errors.Is(err, runtime.ErrEnded) || errors.Is(err, errLinkLost)
		}
	}
}
