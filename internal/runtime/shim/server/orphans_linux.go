package server

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// becomeReaper makes this process the parent of all orphans below it.
func becomeReaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// sweepTimeout bounds a sweep, because a process that cannot die, in a system call that does not
// return, must not hide the end of the agent.
const sweepTimeout = time.Second

// sweep kills what the agent has left behind, in any group or session: all of it is now a
// descendant of this process. Killing the group also gets processes that fork faster than they
// can be found. A group alone does not tell that something is left: for some time after its last
// process was reaped it may say so.
func (run *incarnation) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	reaper := &run.slot.shim.reaper
	for killed := false; ctx.Err() == nil; {
		reaper.Collect()
		if reaper.Childless() {
			return
		}
		left, err := reaper.Strays(run.owns)
		if err != nil || len(left) == 0 {
			return
		}
		if run.group != nil && !killed {
			half, cancel := context.WithTimeout(ctx, sweepTimeout/2)
			run.group.Kill(half)
			cancel()
			killed = true // what is left after that has left the group, or cannot die
			continue
		}
		for _, id := range left {
			id.Signal(syscall.SIGKILL)
		}
		for _, id := range left {
			id.AwaitDeath(ctx)
		}
	}
}

// owns reports whether an orphan is the rest of the agent of this slot. One whose agent is not
// known counts as that when no other agent runs.
func (run *incarnation) owns(p proc.Stray) bool {
	s := run.slot
	return p.Mark == s.mark || wire.HasMarker(p.PID, s.dir) || run.group.has(p.PID) || !s.shim.runsOther(s)
}
