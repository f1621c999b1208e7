package proc

import (
	"context"
	"syscall"
	"time"
)

// restPause is the time between two looks at what is left where the kernel
// does not tell of its end.
const restPause = 50 * time.Millisecond

// awaitRest gives what is left of a process that was asked to stop the rest of
// its grace period: a shell dies of the stop signal at once, while what it has
// started still saves its work. It returns when nothing is left or the process
// is killed. The leader is a zombie until then.
func (p *Process) awaitRest() {
	p.mu.Lock()
	asked, missed := p.asked.Stop && !p.asked.Kill, p.escaped
	p.mu.Unlock()
	if !asked {
		return
	}
	// What has left the group was not asked: that was up to its parents, which
	// have ended.
	for _, id := range missed {
		id.Signal(p.stop)
		id.Signal(syscall.SIGCONT)
	}
	AwaitRest(p.killed, p.rest)
}

// AwaitRest returns when list finds nothing, cannot look, or ctx is done.
func AwaitRest(ctx context.Context, list func() ([]Identity, error)) {
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
