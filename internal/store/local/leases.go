package local

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Leases are the leases of a store that only this process uses. Holders are tracked in memory
// only, since none outlives the process. Only the epoch counter must be durable.
type Leases struct {
	mu     sync.Mutex
	held   map[string]*lease
	closed bool
}

// NewLeases returns an empty table of leases.
func NewLeases() *Leases { return &Leases{held: map[string]*lease{}} }

// Acquire implements store.Store. nextEpoch makes a new epoch durable; it is called while the
// name is reserved but without a lock.
func (l *Leases) Acquire(name string, ttl time.Duration, nextEpoch func() (uint64, error)) (store.Lease, error) {
	if err := store.CheckLease(name, ttl); err != nil {
		return nil, err
	}
	// The deadline counts from here, however long nextEpoch takes.
	le := &lease{table: l, name: name, ttl: ttl, deadline: time.Now().Add(ttl), done: make(chan struct{})}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, store.ErrClosed
	}
	if other := l.held[name]; other != nil {
		if until := other.deadline; time.Now().Before(until) {
			l.mu.Unlock()
			return nil, &store.HeldError{Lease: name, Until: until}
		}
		other.drop() // the timer is late
	}
	l.held[name] = le // with epoch 0, which Check never accepts
	le.timer = time.AfterFunc(ttl, le.expire)
	l.mu.Unlock()

	epoch, err := nextEpoch()

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		le.drop()
		return nil, err
	case l.closed:
		return nil, store.ErrClosed
	}
	le.epoch = epoch // if ttl has passed by now, the caller finds the lease lost, as it may at any time
	return le, nil
}

// Resume implements store.Store.
func (l *Leases) Resume(f store.Fence, ttl time.Duration) (store.Lease, error) {
	if err := store.CheckLease(f.Lease, ttl); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	old := l.held[f.Lease]
	switch {
	case l.closed:
		return nil, store.ErrClosed
	case old == nil || f.Epoch == 0 || old.epoch != f.Epoch || !now.Before(old.deadline):
		return nil, store.ErrFenced
	}
	old.drop()
	le := &lease{table: l, name: f.Lease, ttl: ttl, deadline: now.Add(ttl), done: make(chan struct{}), epoch: f.Epoch}
	l.held[f.Lease] = le
	le.timer = time.AfterFunc(ttl, le.expire)
	return le, nil
}

// Check returns ErrFenced unless the fence is zero or its lease is held.
func (l *Leases) Check(f store.Fence) error {
	if f == (store.Fence{}) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if le := l.held[f.Lease]; le == nil || f.Epoch == 0 || le.epoch != f.Epoch || !time.Now().Before(le.deadline) {
		return store.ErrFenced
	}
	return nil
}

// Close ends all leases.
func (l *Leases) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, le := range l.held {
		le.drop()
	}
}

// lease is one tenure of a lease. epoch is set before Acquire returns it; deadline, timer and
// lost are guarded by the mutex of the table.
type lease struct {
	table    *Leases
	name     string
	ttl      time.Duration
	done     chan struct{}
	epoch    uint64
	deadline time.Time
	timer    *time.Timer
	lost     bool
	left     bool // abandoned: it is held until the deadline, by no Lease
}

func (le *lease) Fence() store.Fence { return store.Fence{Lease: le.name, Epoch: le.epoch} }

func (le *lease) Deadline() time.Time {
	le.table.mu.Lock()
	defer le.table.mu.Unlock()
	return le.deadline
}

func (le *lease) Done() <-chan struct{} { return le.done }

func (le *lease) Renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	le.table.mu.Lock()
	defer le.table.mu.Unlock()
	now := time.Now()
	if !le.lost && !now.Before(le.deadline) {
		le.drop() // the timer is late
	}
	if le.lost || le.left {
		return store.ErrFenced
	}
	le.deadline = now.Add(le.ttl)
	le.timer.Reset(le.ttl)
	return nil
}

func (le *lease) Release(context.Context) error {
	le.table.mu.Lock()
	defer le.table.mu.Unlock()
	if !le.left {
		le.drop()
	}
	return nil
}

func (le *lease) Abandon() {
	le.table.mu.Lock()
	defer le.table.mu.Unlock()
	if !le.lost && !le.left {
		le.left = true
		close(le.done)
	}
}

// expire is called by the timer, possibly while a renewal moves the deadline.
func (le *lease) expire() {
	le.table.mu.Lock()
	defer le.table.mu.Unlock()
	if left := time.Until(le.deadline); left > 0 {
		le.timer.Reset(left)
		return
	}
	le.drop()
}

// drop ends the lease. Needs the mutex of the table.
func (le *lease) drop() {
	if le.lost {
		return
	}
	le.lost = true
	le.timer.Stop()
	if !le.left {
		close(le.done)
	}
	delete(le.table.held, le.name)
}
