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
	conn *conn

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
func (ls *leases) end(ctx context.Context) {
	var ids []rpc.LeaseID
	ls.mu.Lock()
	for _, le := range ls.held {
		le.drop()
		ids = append(ids, le.id)
	}
	ls.mu.Unlock()
	for _, id := range ids {
		if err := ls.conn.client.Revoke(ctx, id); err != nil && ctx.Err() != nil {
			return // they expire
		}
	}
}

// Acquire implements store.Store. etcd knows whole seconds, and no time below about 2 s. A lease of another time
// is free again for others somewhat later than its ttl after it was lost.
func (s *Store) Acquire(ctx context.Context, name string, ttl time.Duration) (store.Lease, error) {
	if err := store.CheckLease(name, ttl); err != nil {
		return nil, err
	}
	if err := s.conn.enter(ctx); err != nil {
		return nil, err
	}
	defer s.conn.calls.Done()
	le, err := s.leases.acquire(ctx, name, ttl)
	if err != nil {
		return nil, s.conn.translate("acquiring lease "+name+" in", err)
	}
	return le, nil
}

func (ls *leases) acquire(ctx context.Context, name string, ttl time.Duration) (*lease, error) {
	var last counter
	err := ls.conn.retry(ctx, func(ctx context.Context) (err error) {
		last, err = ls.checkFree(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	var sentAt time.Time
	var id rpc.LeaseID
	err = ls.conn.retry(ctx, func(ctx context.Context) (err error) {
		sentAt = time.Now()
		id, err = ls.conn.client.Grant(ctx, wholeSeconds(ttl))
		return err
	})
	if err != nil {
		return nil, err
	}
	epoch, err := ls.claim(ctx, name, id, last)
	if err != nil {
		ls.conn.revoke(id)
		return nil, err
	}
	fence := store.Fence{Lease: name, Epoch: epoch}
	return ls.hold(&lease{ttl: ttl, id: id, deadline: sentAt.Add(ttl), fence: fence}), nil
}

// hold begins a tenure. etcd has ended one of the same name that this process has, or it is resumed.
func (ls *leases) hold(le *lease) *lease {
	le.ls, le.name, le.done = ls, le.fence.Lease, make(chan struct{})
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if old := ls.held[le.name]; old != nil {
		old.drop()
	}
	delete(ls.lost, le.fence)
	ls.held[le.name] = le
	le.timer = time.AfterFunc(time.Until(le.deadline), le.checkDeadline)
	return le
}

// Resume implements store.Store. The time of the lease in etcd stays that with which it was acquired; ttl must not be
// longer.
func (s *Store) Resume(ctx context.Context, f store.Fence, ttl time.Duration) (store.Lease, error) {
	if err := store.CheckLease(f.Lease, ttl); err != nil {
		return nil, err
	}
	if err := s.conn.enter(ctx); err != nil {
		return nil, err
	}
	defer s.conn.calls.Done()
	le, err := s.leases.resume(ctx, f, ttl)
	if err != nil {
		return nil, s.conn.translate("resuming lease "+f.Lease+" in", err)
	}
	return le, nil
}

func (ls *leases) resume(ctx context.Context, f store.Fence, ttl time.Duration) (*lease, error) {
	if ls.isLost(f) {
		return nil, store.ErrFenced
	}
	le := &lease{ls: ls, name: f.Lease, ttl: ttl, fence: f}
	err := ls.conn.retry(ctx, func(ctx context.Context) error {
		resp, err := ls.conn.client.Get(ctx, rpc.Get{Key: ls.conn.leaseKey(f.Lease)})
		if err != nil {
			return err
		}
		if len(resp.Keys) == 0 || string(resp.Keys[0].Value) != strconv.FormatUint(f.Epoch, 10) {
			return store.ErrFenced
		}
		le.id = resp.Keys[0].Lease
		le.deadline = time.Now().Add(ttl)
		return ls.keepAlive(ctx, le)
	})
	switch {
	case errors.Is(err, rpc.ErrLeaseNotFound):
		return nil, store.ErrFenced
	case err != nil:
		return nil, err
	}
	return ls.hold(le), nil
}

// checkFree returns a *store.HeldError if a lease is held, and otherwise the last epoch.
func (ls *leases) checkFree(ctx context.Context, name string) (last counter, err error) {
	resp, err := ls.conn.client.Txn(ctx, rpc.Txn{
		Then: []rpc.Op{rpc.Get{Key: ls.conn.leaseKey(name)}, rpc.Get{Key: ls.conn.prefix + "epoch"}}})
	if err != nil {
		return last, err
	}
	if kvs := resp.Got[0].Keys; len(kvs) > 0 {
		return last, ls.heldError(ctx, name, kvs[0].Lease)
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
func (ls *leases) heldError(ctx context.Context, name string, id rpc.LeaseID) error {
	seconds, err := ls.conn.client.TimeToLive(ctx, id)
	if err != nil {
		return err
	}
	left := time.Duration(min(max(seconds, 0), maxHeld)) * time.Second
	return &store.HeldError{Lease: name, Until: time.Now().Add(left + minHeld)}
}

// wholeSeconds rounds up.
func wholeSeconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// claim makes the record of a lease, attached to the lease of etcd with that ID, unless there is one.
func (ls *leases) claim(ctx context.Context, name string, id rpc.LeaseID, last counter) (epoch uint64, err error) {
	key, epochKey := ls.conn.leaseKey(name), ls.conn.prefix+"epoch"
	err = ls.conn.retry(ctx, func(ctx context.Context) error {
		for {
			next := strconv.AppendUint(nil, last.n+1, 10)
			resp, err := ls.conn.client.Txn(ctx, rpc.Txn{
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
				return ls.heldError(ctx, name, kvs[0].Lease)
			}
			if last, err = counterOf(resp.Got[1].Keys); err != nil {
				return err
			}
		}
	})
	return epoch, err
}

// keepAlive renews a lease of etcd once.
//
// A member that has lost the majority renews leases until it notices, an election timeout later. A read through a
// majority in the same term shows that the renewal was by the member that led, and that the record was not removed.
func (ls *leases) keepAlive(ctx context.Context, le *lease) error {
	term, err := ls.conn.client.KeepAlive(ctx, le.id)
	if err != nil {
		return err
	}
	read, err := ls.conn.client.Get(ctx, rpc.Get{Key: ls.conn.leaseKey(le.name)})
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
