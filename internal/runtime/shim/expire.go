package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// endTime bounds the wait for the end of a shim that was killed.
const endTime = 3 * time.Second

// Expire ends what runs in the slots of a directory when the deadline of the node has come, in place of shims that were
// killed or hang: at once if the shim has ended, as the next daemon would, and otherwise when the shim should have done
// it. It returns when nothing runs, at the latest after the grace period of all agents. Of the options it uses Dir,
// WithoutGroups and Logger.
func Expire(o Options, at deadline.Instant) error {
	if _, err := os.Lstat(o.Dir); wire.IsMissing(err) {
		return nil
	}
	r, err := newRuntime(o)
	if err != nil {
		return err
	}
	defer r.Close()
	r.groups.find(r, o.WithoutGroups)
	var mu sync.Mutex
	byShim := make(map[proc.Identity][]*expiring)
	err = r.each(nil, func(dir string) {
		if x := r.expiring(dir, at); x != nil {
			mu.Lock()
			defer mu.Unlock()
			byShim[x.shim] = append(byShim[x.shim], x)
		}
	})
	var wg sync.WaitGroup
	for shim, all := range byShim {
		wg.Go(func() {
			if failed := r.expireShim(shim, all); failed != nil {
				mu.Lock()
				defer mu.Unlock()
				err = errors.Join(err, failed)
			}
		})
	}
	wg.Wait()
	return err
}

// expiring is a slot with an incarnation whose end is not recorded.
type expiring struct {
	*slot
	number uint64 // 0 if it is not known
	token  string
	last   deadline.Instant // by which it must have ended
}

// expiring returns a slot whose last incarnation may run; nil if it has ended.
func (r *Runtime) expiring(dir string, at deadline.Instant) *expiring {
	st, err := wire.ReadState(dir)
	switch {
	case wire.IsMissing(err):
		return nil
	case err != nil: // damaged
		st = new(wire.State)
	case st.LoadEnd(dir):
		return nil
	}
	s := r.newSlot(st.Path, dir)
	s.shim = st.Shim
	return &expiring{
		slot: s, number: st.Incarnation, token: st.Token, last: at.Add(deadline.LastGrace(st.Grace) + deadline.Spare),
	}
}

// running returns the state of the incarnation; nil if it has ended, or if another one was started after it.
func (x *expiring) running() *wire.State {
	st, err := wire.ReadState(x.dir)
	switch {
	case wire.IsMissing(err):
		return nil
	case err != nil:
		return new(wire.State)
	case x.number > 0 && (st.Incarnation != x.number || st.Token != x.token), st.LoadEnd(x.dir):
		return nil
	}
	return st
}

// endPause is the time between two looks whether a shim has ended its agent.
const endPause = 50 * time.Millisecond

// await waits until the incarnation or its shim has ended, or until its time is over.
func (x *expiring) await(dead <-chan struct{}) {
	for now, err := deadline.Now(); err == nil && now < x.last; now, err = deadline.Now() {
		if slots.IsClosed(dead) || x.running() == nil {
			return
		}
		deadline.Wait(dead, min(now.Add(endPause), x.last))
	}
}

// expireShim ends what runs in slots of a shim.
func (r *Runtime) expireShim(shim proc.Identity, all []*expiring) error {
	slices.SortFunc(all, func(a, b *expiring) int { return cmp.Compare(a.last, b.last) })
	dead := make(chan struct{})
	ctx, cancel := context.WithCancel(r.Ctx)
	defer cancel()
	r.Background(func() {
		if shim.AwaitDeath(ctx) == nil {
			close(dead)
		}
	})
	stuck := false
	for rest := all; len(rest) > 0; {
		if rest[0].await(dead); slots.IsClosed(dead) {
			break
		}
		now, err := deadline.Now()
		n := 1
		for n < len(rest) && (err != nil || rest[n].last <= now) {
			n++
		}
		if !r.kill(ctx, rest[:n]) {
			stuck = true
		}
		rest = rest[n:]
	}
	switch {
	case slots.IsClosed(dead):
	case !stuck:
		return nil
	default:
		r.log.Warn("shim has not ended its agents in time, and is killed", "pid", shim.PID)
		shim.Signal(syscall.SIGKILL)
		ctx, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		if err := shim.AwaitDeath(ctx); err != nil {
			return fmt.Errorf("killing shim %d: %w", shim.PID, err)
		}
	}
	return concludeAll(r.Ctx, all)
}

// kill kills what runs in slots of a shim that does not do it, all at once: other nodes do not wait longer for many. It
// reports whether nothing of the incarnations can go on.
func (r *Runtime) kill(ctx context.Context, all []*expiring) bool {
	var left atomic.Bool
	running := make(map[*expiring]*wire.State)
	var agents []proc.Identity
	for _, x := range all {
		st := x.running()
		if st == nil {
			continue
		}
		r.log.Warn("agent has not ended in time, and is killed", "path", x.path, "incarnation", x.number)
		if st.Agent == (proc.Identity{}) { // a function, or a process that is just being started, is not known
			left.Store(true)
		}
		running[x], agents = st, append(agents, st.Agent)
	}
	for _, id := range proc.Families(agents) { // before an agent is killed in another way: then its family is not known
		id.Signal(syscall.SIGKILL)
	}
	var killing sync.WaitGroup
	for x, st := range running {
		killing.Go(func() {
			err := errors.Join(x.killGroups(ctx, st), r.sweeper.Sweep(ctx, wire.MarkerEnv+"="+wire.Marker(x.dir)))
			if err != nil {
				r.log.Warn("what an agent has started may go on", "path", x.path, "error", err)
				left.Store(true)
			}
		})
	}
	killing.Wait()
	return !left.Load()
}

// concludeAll concludes slots whose shim has ended.
func concludeAll(ctx context.Context, all []*expiring) error {
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, x := range all {
		wg.Go(func() {
			if err := x.conclude(ctx); err != nil {
				errs[i] = fmt.Errorf("ending %s: %w", x.path, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// conclude is slot.conclude for an incarnation whose shim has ended. If another process has the lock, it does the same,
// or was stopped in the middle.
func (x *expiring) conclude(ctx context.Context) error {
	for pause := findPause; x.running() != nil; pause = min(2*pause, 100*time.Millisecond) {
		lock, err := wire.TryLock(x.dir)
		if lock != nil {
			_, err = x.slot.conclude(ctx)
			lock.Close()
			return err
		}
		now, clockErr := deadline.Now()
		if err != nil || clockErr != nil || now >= x.last {
			x.r.kill(ctx, []*expiring{x})
			return err
		}
		<-time.After(pause)
	}
	return nil
}
