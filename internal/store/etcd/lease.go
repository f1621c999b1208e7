package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// lease is one tenure. The fields below done are guarded by the mutex of leases.
type lease struct {
	ls    *leases
	name  string
	ttl   time.Duration
	id    rpc.LeaseID
	fence store.Fence
	done  chan struct{}

	deadline time.Time
	timer    *time.Timer
	lost     bool
}

// Fence implements store.Lease.
func (le *lease) Fence() store.Fence { return le.fence }

// Done implements store.Lease.
func (le *lease) Done() <-chan struct{} { return le.done }

// Deadline implements store.Lease.
func (le *lease) Deadline() time.Time {
	le.ls.mu.Lock()
	defer le.ls.mu.Unlock()
	return le.deadline
}

// Renew implements store.Lease. It tries until the deadline at most.
func (le *lease) Renew(ctx context.Context) error {
	if err := le.ls.conn.enter(ctx); err != nil {
		if errors.Is(err, store.ErrClosed) {
			err = store.ErrFenced
		}
		return err
	}
	defer le.ls.conn.calls.Done()
	if le.ls.isLost(le.fence) {
		return store.ErrFenced
	}
	bounded, cancel := context.WithDeadline(ctx, le.Deadline())
	defer cancel()
	var sentAt time.Time
	err := le.ls.conn.retry(bounded, func(ctx context.Context) error {
		sentAt = time.Now()
		return le.ls.keepAlive(ctx, le)
	})
	switch {
	case errors.Is(err, rpc.ErrLeaseNotFound):
		le.lose()
		return store.ErrFenced
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		return store.ErrFenced
	case err != nil:
		return le.ls.conn.translate("renewing lease "+le.name+" in", err)
	}
	return le.extend(sentAt.Add(le.ttl))
}

// extend moves the deadline on, unless the lease was lost meanwhile.
func (le *lease) extend(deadline time.Time) error {
	le.ls.mu.Lock()
	defer le.ls.mu.Unlock()
	if le.lost {
		return store.ErrFenced
	}
	if deadline.After(le.deadline) {
		le.deadline = deadline
		le.timer.Reset(time.Until(deadline))
	}
	return nil
}

// Release implements store.Lease.
func (le *lease) Release(ctx context.Context) error {
	if !le.lose() {
		return nil // it has ended, or another Lease has it
	}
	if err := le.ls.conn.enter(ctx); errors.Is(err, store.ErrClosed) {
		return nil
	} else if err != nil {
		return err
	}
	defer le.ls.conn.calls.Done()
	err := le.ls.conn.retry(ctx, func(ctx context.Context) error { return le.ls.conn.client.Revoke(ctx, le.id) })
	if errors.Is(err, rpc.ErrLeaseNotFound) {
		return nil
	}
	return le.ls.conn.translate("releasing lease "+le.name+" in", err)
}

// Abandon implements store.Lease.
func (le *lease) Abandon() {
	le.ls.mu.Lock()
	defer le.ls.mu.Unlock()
	if le.lost {
		return
	}
	le.drop()
	delete(le.ls.lost, le.fence) // etcd decides
}

// checkDeadline ends the lease if its deadline is over. It is called by the timer, possibly while a renewal moves the
// deadline.
func (le *lease) checkDeadline() {
	le.ls.mu.Lock()
	left, over := time.Until(le.deadline), false
	switch {
	case le.lost:
	case left > 0:
		le.timer.Reset(left)
	default:
		le.drop()
		over = true
	}
	le.ls.mu.Unlock()
	if over {
		le.ls.conn.revoke(le.id) // so that others need not wait for etcd
	}
}

// lose ends the lease, and reports whether this call has.
func (le *lease) lose() bool {
	le.ls.mu.Lock()
	defer le.ls.mu.Unlock()
	held := !le.lost
	le.drop()
	return held
}

// drop ends the lease. Needs the mutex of leases.
func (le *lease) drop() {
	if le.lost {
		return
	}
	le.lost = true
	le.timer.Stop()
	close(le.done)
	le.ls.lost[le.fence] = true
	if le.ls.held[le.name] == le {
		delete(le.ls.held, le.name)
	}
}
