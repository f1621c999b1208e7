package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// leases are those that this process holds, and the fences of those that it has lost: the deadline of a holder comes
// before that of etcd, which accepts its fence until then.
type leases struct {
	mu   sync.Mutex
	held map[string]*lease // by name
	lost map[store.Fence]bool
}

// isLost also notices a deadline for which the timer is late.
func (ls *leases) isLost(f store.Fence) bool {
	ls.mu.Lock()
	le := ls.held[f.Lease]
	ls.mu.Unlock()
	if le != nil {
		le.checkDeadline()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.lost[f]
}

// end loses all leases, and gives them up.
func (ls *leases) end(ctx context.Context, client *rpc.Client) {
	var ids []rpc.LeaseID
	ls.mu.Lock()
	for _, le := range ls.held {
		le.drop()
		ids = append(ids, le.id)
	}
	ls.mu.Unlock()
	for _, id := range ids {
		if err := client.Revoke(ctx, id); err != nil && ctx.Err() != nil {
			return // they expire
		}
	}
}

func (s *Store) leaseKey(name string) string { return s.prefix + "l/" + name }

// Acquire implements store.Store. etcd knows whole seconds, and no time below about 2 s. A lease of another time
// is free again for others somewhat later than its ttl after it was lost.
func (s *Store) Acquire(ctx context.Context, name string, ttl time.Duration) (store.Lease, error) {
	if err := store.CheckLease(name, ttl); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	le, err := s.acquire(ctx, name, ttl)
	if err != nil {
		return nil, s.translate("acquiring lease "+name+" in", err)
	}
	return le, nil
}

func (s *Store) acquire(ctx context.Context, name string, ttl time.Duration) (*lease, error) {
	var last counter
	err := s.retry(ctx, func(ctx context.Context) (err error) {
		last, err = s.checkFree(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	var sentAt time.Time
	var id rpc.LeaseID
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		sentAt = time.Now()
		id, err = s.client.Grant(ctx, wholeSeconds(ttl))
		return err
	})
	if err != nil {
		return nil, err
	}
	epoch, err := s.claim(ctx, name, id, last)
	if err != nil {
		s.revoke(id)
		return nil, err
	}
	fence := store.Fence{Lease: name, Epoch: epoch}
	return s.hold(&lease{ttl: ttl, id: id, deadline: sentAt.Add(ttl), fence: fence}), nil
}

// hold begins a tenure. etcd has ended one of the same name that this process has, or it is resumed.
func (s *Store) hold(le *lease) *lease {
	le.s, le.name, le.done = s, le.fence.Lease, make(chan struct{})
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	if old := s.leases.held[le.name]; old != nil {
		old.drop()
	}
	delete(s.leases.lost, le.fence)
	s.leases.held[le.name] = le
	le.timer = time.AfterFunc(time.Until(le.deadline), le.checkDeadline)
	return le
}

// Resume implements store.Store. The time of the lease in etcd stays that with which it was acquired; ttl must not be
// longer.
func (s *Store) Resume(ctx context.Context, f store.Fence, ttl time.Duration) (store.Lease, error) {
	if err := store.CheckLease(f.Lease, ttl); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	if s.leases.isLost(f) {
		return nil, store.ErrFenced
	}
	le := &lease{s: s, name: f.Lease, ttl: ttl, fence: f}
	err := s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, rpc.Get{Key: s.leaseKey(f.Lease)})
		if err != nil {
			return err
		}
		if len(resp.Keys) == 0 || string(resp.Keys[0].Value) != strconv.FormatUint(f.Epoch, 10) {
			return store.ErrFenced
		}
		le.id = resp.Keys[0].Lease
		le.deadline = time.Now().Add(ttl)
		return s.keepAlive(ctx, le)
	})
	switch {
	case errors.Is(err, rpc.ErrLeaseNotFound):
		return nil, store.ErrFenced
	case err != nil:
		return nil, s.translate("resuming lease "+f.Lease+" in", err)
	}
	return s.hold(le), nil
}

// checkFree returns a *store.HeldError if a lease is held, and otherwise the last epoch.
func (s *Store) checkFree(ctx context.Context, name string) (last counter, err error) {
	resp, err := s.client.Txn(ctx, rpc.Txn{
		Then: []rpc.Op{rpc.Get{Key: s.leaseKey(name)}, rpc.Get{Key: s.prefix + "epoch"}}})
	if err != nil {
		return last, err
	}
	if kvs := resp.Got[0].Keys; len(kvs) > 0 {
		return last, s.heldError(ctx, name, kvs[0].Lease)
	}
	return counterOf(resp.Got[1].Keys)
}

const (
	// minHeld is added to the time left of a lease: etcd tells it in seconds, rounded down, and ends leases somewhat
	// later.
	minHeld = 200 * time.Millisecond
	// maxHeld is the longest time left that fits into a time.Duration, in seconds. It is also the most that etcd takes.
	maxHeld = 9_000_000_000
)

// heldError returns a *store.HeldError for a lease that is attached to that of etcd.
func (s *Store) heldError(ctx context.Context, name string, id rpc.LeaseID) error {
	seconds, err := s.client.TimeToLive(ctx, id)
	if err != nil {
		return err
	}
	left := time.Duration(min(max(seconds, 0), maxHeld)) * time.Second
	return &store.HeldError{Lease: name, Until: time.Now().Add(left + minHeld)}
}

// wholeSeconds rounds up.
func wholeSeconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// claim makes the record of a lease, attached to the lease of etcd with that ID, unless there is one.
func (s *Store) claim(ctx context.Context, name string, id rpc.LeaseID, last counter) (epoch uint64, err error) {
	key, epochKey := s.leaseKey(name), s.prefix+"epoch"
	err = s.retry(ctx, func(ctx context.Context) error {
		for {
			next := strconv.AppendUint(nil, last.n+1, 10)
			resp, err := s.client.Txn(ctx, rpc.Txn{
				If:   []rpc.Compare{rpc.IsMissing(key), rpc.HasRevision(epochKey, last.rev)},
				Then: []rpc.Op{rpc.Put{Key: key, Value: next, Lease: id}, rpc.Put{Key: epochKey, Value: next}},
				Else: []rpc.Op{rpc.Get{Key: key}, rpc.Get{Key: epochKey}},
			})
			if err != nil {
				return err
			}
			if resp.Succeeded {
				epoch = last.n + 1
				return nil
			}
			if kvs := resp.Got[0].Keys; len(kvs) > 0 {
				if kvs[0].Lease == id { // by an attempt that got no answer
					epoch, err = number(&kvs[0])
					return err
				}
				return s.heldError(ctx, name, kvs[0].Lease)
			}
			if last, err = counterOf(resp.Got[1].Keys); err != nil {
				return err
			}
		}
	})
	return epoch, err
}

// revoke gives a lease of etcd back in the background. Without an answer it expires.
func (s *Store) revoke(id rpc.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.calls.Go(func() {
		_ = s.retry(s.ctx, func(ctx context.Context) error { return s.client.Revoke(ctx, id) })
	})
}

// lease is one tenure. The fields below done are guarded by the mutex of leases.
type lease struct {
	s     *Store
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
	le.s.leases.mu.Lock()
	defer le.s.leases.mu.Unlock()
	return le.deadline
}

// Renew implements store.Lease. It tries until the deadline at most.
func (le *lease) Renew(ctx context.Context) error {
	if err := le.s.enter(ctx); err != nil {
		if errors.Is(err, store.ErrClosed) {
			err = store.ErrFenced
		}
		return err
	}
	defer le.s.calls.Done()
	if le.s.leases.isLost(le.fence) {
		return store.ErrFenced
	}
	bounded, cancel := context.WithDeadline(ctx, le.Deadline())
	defer cancel()
	var sentAt time.Time
	err := le.s.retry(bounded, func(ctx context.Context) error {
		sentAt = time.Now()
		return le.s.keepAlive(ctx, le)
	})
	switch {
	case errors.Is(err, rpc.ErrLeaseNotFound):
		le.lose()
		return store.ErrFenced
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		return store.ErrFenced
	case err != nil:
		return le.s.translate("renewing lease "+le.name+" in", err)
	}
	return le.extend(sentAt.Add(le.ttl))
}

// keepAlive renews a lease of etcd once.
//
// A member that has lost the majority renews leases until it notices, an election timeout later. A read through a
// majority in the same term shows that the renewal was by the member that led, and that nobody has removed the record.
func (s *Store) keepAlive(ctx context.Context, le *lease) error {
	term, err := s.client.KeepAlive(ctx, le.id)
	if err != nil {
		return err
	}
	read, err := s.client.Get(ctx, rpc.Get{Key: s.leaseKey(le.name)})
	switch {
	case err != nil:
		return err
	case len(read.Keys) == 0 || read.Keys[0].Lease != le.id:
		return rpc.ErrLeaseNotFound
	case read.Term != term:
		return rpc.ErrLeaderChanged // which is another attempt's business
	}
	return nil
}

// extend moves the deadline on, unless the lease was lost meanwhile.
func (le *lease) extend(deadline time.Time) error {
	le.s.leases.mu.Lock()
	defer le.s.leases.mu.Unlock()
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
	if err := le.s.enter(ctx); errors.Is(err, store.ErrClosed) {
		return nil
	} else if err != nil {
		return err
	}
	defer le.s.calls.Done()
	err := le.s.retry(ctx, func(ctx context.Context) error { return le.s.client.Revoke(ctx, le.id) })
	if errors.Is(err, rpc.ErrLeaseNotFound) {
		return nil
	}
	return le.s.translate("releasing lease "+le.name+" in", err)
}

// Abandon implements store.Lease.
func (le *lease) Abandon() {
	le.s.leases.mu.Lock()
	defer le.s.leases.mu.Unlock()
	if le.lost {
		return
	}
	le.drop()
	delete(le.s.leases.lost, le.fence) // etcd decides
}

// checkDeadline ends the lease if its deadline is over. It is called by the timer, possibly while a renewal moves the
// deadline.
func (le *lease) checkDeadline() {
	le.s.leases.mu.Lock()
	left, over := time.Until(le.deadline), false
	switch {
	case le.lost:
	case left > 0:
		le.timer.Reset(left)
	default:
		le.drop()
		over = true
	}
	le.s.leases.mu.Unlock()
	if over {
		le.s.revoke(le.id) // so that others need not wait for etcd
	}
}

// lose ends the lease, and reports whether this call has.
func (le *lease) lose() bool {
	le.s.leases.mu.Lock()
	defer le.s.leases.mu.Unlock()
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
	le.s.leases.lost[le.fence] = true
	if le.s.leases.held[le.name] == le {
		delete(le.s.leases.held, le.name)
	}
}
