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
// can be found.
func (s *slot) sweep(group *agentGroup) {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	reaper := &s.shim.reaper
	for ctx.Err() == nil {
		reaper.Collect()
		if reaper.Childless() {
			return
		}
		if group != nil {
			half, cancel := context.WithTimeout(ctx, sweepTimeout/2)
			group.Kill(half)
			cancel()
			group = nil // what is left has left the group, or cannot die
			continue
		}
		left, err := reaper.Strays(s.owns)
		if err != nil || len(left) == 0 {
			return
		}
		for _, id := range left {
			id.Signal(syscall.SIGKILL)
		}
		for _, id := range left {
			id.AwaitDeath(ctx)
		}
	}
}

// owns reports whether a child of the shim is the rest of the agent of this slot. A process that
// others have left behind, and whose it is is not known, counts as that when no other agent runs.
func (s *slot) owns(p proc.Stray) bool {
	switch {
	case p.Mark == s.mark:
		return true
	case p.Child:
		return false
	}
	return wire.HasMarker(p.PID, s.dir) || !s.shim.runsOther(s)
}
