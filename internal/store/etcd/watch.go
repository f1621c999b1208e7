package etcd

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// Bounds on the changes that are kept for a watch whose consumer is slow.
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
			yield(store.Change{}, s.conn.translate("watching", err))
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
			case <-s.conn.closing:
				yield(store.Change{}, store.ErrClosed)
				return
			}
		}
	}
}

// checkRev returns ErrCompacted if the store has not come to a revision yet.
func (s *Store) checkRev(ctx context.Context, rev store.Rev) error {
	if err := s.conn.enter(ctx); err != nil {
		return err
	}
	defer s.conn.calls.Done() // Close does not wait for the consumer of a watch
	current, err := s.conn.current(ctx)
	if err == nil && rev > store.Rev(current) {
		err = store.ErrCompacted
	}
	return err
}

// follow adds all changes after a revision to a backlog until it fails.
func (s *Store) follow(ctx context.Context, prefix string, after int64, b *backlog) error {
	pause := minPause
	from, _ := s.conn.bounds(prefix)
	log := s.refusals(from)
	for {
		begun := time.Now()
		if err := s.followOnce(ctx, prefix, &after, b, log); err != nil {
			return err
		}
		if time.Since(begun) > maxPause {
			pause = minPause
		}
		if err := s.conn.pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// progressInterval is the interval at which an idle watch asks for the current revision. Otherwise an interrupted watch
// would resume after its last change, which may be compacted.
const progressInterval = time.Minute

// followOnce is follow until the watch of etcd ends, such as by a member without a leader.
func (s *Store) followOnce(ctx context.Context, prefix string, after *int64, b *backlog, log *refusals) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := s.conn.bounds(prefix)
	w, err := s.conn.client.Watch(ctx, from, to, *after+1)
	if err != nil {
		log.note(err)
		return nil
	}
	asking.Go(func() { s.askForProgress(ctx, w) })
	for {
		changes, err := w.Receive()
		switch {
		case isCompacted(err):
			return store.ErrCompacted
		case err != nil:
			log.note(err)
			return nil
		case len(changes.Events) == 0:
			*after = max(*after, changes.Revision)
		}
		log.told = false
		full := false
		groups(changes.Events, func(rev int64, events []rpc.Event) {
			c, size := s.restrict(rev, events, prefix)
			full = full || len(c.Put)+len(c.Deleted) > 0 && !b.add(c, size)
			*after = rev
		})
		if full {
			return store.ErrCompacted
		}
	}
}

// refusals logs once that etcd refuses a watch, until it has worked. The watch is tried on: a person may mend that.
type refusals struct {
	conn   *conn
	logger *slog.Logger
	keys   string // the first one of those that are watched
	told   bool
}

func (s *Store) refusals(keys string) *refusals {
	return &refusals{conn: s.conn, logger: s.logger, keys: keys}
}

func (r *refusals) note(err error) {
	if r.told || passing(err) {
		return
	}
	r.told = true
	r.logger.Warn("etcd does not tell changes; trying on", "keys", r.keys, "user", r.conn.user, "error",
		r.conn.translate("watching", err))
}

// askForProgress asks for the current revision again and again until ctx ends.
func (s *Store) askForProgress(ctx context.Context, w *rpc.Watch) {
	tick := time.NewTicker(s.progress)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = w.RequestProgress() // the next one may be answered
		case <-ctx.Done():
			return
		}
	}
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
