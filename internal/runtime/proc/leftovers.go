package proc

import (
	"context"
	"syscall"
	"time"
)

// restPause is the time between two looks at what is left, if the kernel does not report its
// end.
const restPause = 50 * time.Millisecond

// awaitRest gives what is left of a stopped process the rest of its grace period. A shell dies
// of the stop signal immediately, while the commands that it started still save their work. It
// returns when nothing is left or the process is killed.
func (p *Process) awaitRest() {
	p.mu.Lock()
	asked, missed := p.asked.Stop && !p.asked.Kill, p.escaped
	p.mu.Unlock()
	if !asked {
		return
	}
	// Processes that left the group were not signaled, since that was up to their parents. These
	// have ended now.
	for _, id := range missed {
		id.Signal(p.stop)
		id.Signal(syscall.SIGCONT)
	}
	AwaitLeftovers(p.killed, p.rest)
}

// AwaitLeftovers returns when list finds nothing or fails, or when ctx is done.
func AwaitLeftovers(ctx context.Context, list func() ([]Identity, error)) {
	for ctx.Err() == nil {
		left, err := list()
		if err != nil || len(left) == 0 {
			return
		}
		for _, id := range left {
			if id.AwaitDeath(ctx) == nil {
				continue
			}
			select {
			case <-time.After(restPause):
			case <-ctx.Done():
				return
			}
		}
	}
}
