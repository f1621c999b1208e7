package etcd

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coppice-dev/coppice/internal/store"
)

// Bounds on the changes that are kept for a watch whose consumer is slow. The client of etcd keeps them without bound.
const (
	maxBacklog      = 16384
	maxBacklogBytes = 8 << 20
)

// Watch implements store.Store. It goes on through failures of members and of the network, for as long as etcd keeps
// the changes that it has missed: at least 5 minutes, unless somebody compacts its history.
func (s *Store) Watch(ctx context.Context, prefix string, from store.Rev) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if err := store.CheckPrefix(prefix); err != nil {
			yield(store.Change{}, err)
			return
		}
		if err := s.checkRev(ctx, from); err != nil {
			yield(store.Change{}, s.translate("watching", err))
			return
		}
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		b := &backlog{more: make(chan struct{}, 1)}
		var follower sync.WaitGroup
		defer follower.Wait()
		defer cancel()
		follower.Go(func() { b.end(s.follow(watching, prefix, int64(from), b)) })
		for {
			changes, err := b.take()
			for _, c := range changes {
				if err := ctx.Err(); err != nil {
					yield(store.Change{}, err)
					return
				}
				if !yield(c, nil) {
					return
				}
			}
			if len(changes) > 0 {
				continue
			}
			if err != nil {
				yield(store.Change{}, err)
				return
			}
			select {
			case <-b.more:
			case <-ctx.Done():
				yield(store.Change{}, ctx.Err())
				return
			case <-s.closing:
				yield(store.Change{}, store.ErrClosed)
				return
			}
		}
	}
}

// checkRev returns ErrCompacted if the store has not come to a revision yet.
func (s *Store) checkRev(ctx context.Context, rev store.Rev) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Done() // Close does not wait for the consumer of a watch
	current, err := s.current(ctx)
	if err == nil && rev > store.Rev(current) {
		err = store.ErrCompacted
	}
	return err
}

// follow adds all changes after a revision to a backlog until it fails.
func (s *Store) follow(ctx context.Context, prefix string, after int64, b *backlog) error {
	for {
		err := s.followOnce(ctx, prefix, &after, b)
		if err == nil {
			err = s.pause(ctx, maxPause)
		}
		if err != nil {
			return err
		}
	}
}

// progressInterval is the interval at which an idle watch asks for the current revision. Otherwise an interrupted watch
// would resume after its last change, which may be compacted.
const progressInterval = time.Minute

// followOnce is follow until the watch of etcd ends, such as by a member without a leader.
func (s *Store) followOnce(ctx context.Context, prefix string, after *int64, b *backlog) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	from, to := s.bounds(prefix)
	tick := time.NewTicker(s.progress)
	defer tick.Stop()
	answers := s.client.Watch(ctx, from, clientv3.WithRange(to), clientv3.WithRev(*after+1))
	for {
		var resp clientv3.WatchResponse
		var open bool
		select {
		case resp, open = <-answers:
		case <-tick.C:
			_ = s.client.RequestProgress(ctx) // the next one may be answered
			continue
		}
		switch {
		case resp.CompactRevision != 0, isCompacted(resp.Err()):
			return store.ErrCompacted
		case !open, resp.Canceled:
			return nil
		case resp.IsProgressNotify():
			*after = max(*after, resp.Header.Revision)
		}
		full := false
		groups(resp.Events, func(rev int64, events []*clientv3.Event) {
			c, size := s.restrict(rev, events, prefix)
			full = full || len(c.Put)+len(c.Deleted) > 0 && !b.add(c, size)
			*after = rev
		})
		if full {
			return store.ErrCompacted
		}
	}
}

// current returns the current revision.
func (s *Store) current(ctx context.Context) (rev int64, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, s.prefix+"format", clientv3.WithKeysOnly())
		if err == nil {
			rev = resp.Header.Revision
		}
		return err
	})
	return rev, err
}

// backlog has the changes that a watch has received and its consumer has not.
type backlog struct {
	more    chan struct{} // has a token if something was added
	mu      sync.Mutex
	changes []store.Change
	bytes   int
	err     error // after the changes
}

// add reports whether there was room.
func (b *backlog) add(c store.Change, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.changes) > 0 && (len(b.changes) == maxBacklog || b.bytes+size > maxBacklogBytes) {
		return false
	}
	b.changes = append(b.changes, c)
	b.bytes += size
	b.wake()
	return true
}

// end has the watch end with err after the changes; when there was no room, without them.
func (b *backlog) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	if errors.Is(err, store.ErrCompacted) {
		b.changes = nil // they would be of no use: the consumer takes a snapshot
	}
	b.wake()
}

func (b *backlog) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take returns what was added since the last call, or else the error at the end.
func (b *backlog) take() ([]store.Change, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := b.changes
	b.changes, b.bytes = nil, 0
	return changes, b.err
}
