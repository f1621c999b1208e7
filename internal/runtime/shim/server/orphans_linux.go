package server

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
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
func sweep(reaper *proc.Reaper, group *agentGroup) {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
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
		left, err := proc.Descendants(os.Getpid())
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
