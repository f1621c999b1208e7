package etcd

import (
	"context"
	"errors"
	"slices"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// Keys of one request. etcd bounds what it sends by their number only, so the first request is for few, and the next
// ones are for more while they are small.
const (
	minKeys = 64
	maxKeys = 4096
)

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, prefix string) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, "", 0, 0)
}

// Scan implements store.Store.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, after, limit, store.MaxPage)
}

func (s *Store) read(ctx context.Context, prefix, after string, limit, maxBytes int) ([]store.Record, store.Rev,
	error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, 0, err
	}
	if err := s.conn.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.conn.calls.Done()
	var page []store.Record
	bytes := 0
	var all rpc.Get
	all.Key, all.End = s.conn.bounds(prefix)
	if after != "" {
		all.Key = max(all.Key, s.conn.key(after)+"\x00")
	}
	rev, err := s.conn.pages(ctx, all, func(kv *rpc.KeyValue) bool {
		r := store.Record{Key: s.conn.record(kv.Key), Value: kv.Value, Rev: store.Rev(kv.Revision)}
		if !store.Under(prefix, r.Key) {
			return true
		}
		bytes += len(r.Value)
		if limit > 0 && len(page) == limit || maxBytes > 0 && len(page) > 0 && bytes > maxBytes {
			return false
		}
		page = append(page, r)
		return limit == 0 || len(page) < limit
	})
	if err != nil {
		return nil, 0, s.conn.translate("reading "+prefix+" from", err)
	}
	return page, store.Rev(rev), nil
}

// pages calls each for the keys of a range in their order, as of one revision, until it returns false. It returns the
// revision. The limit of the range is not used.
func (c *conn) pages(ctx context.Context, all rpc.Get, each func(*rpc.KeyValue) bool) (rev int64, err error) {
	for all.Limit = minKeys; ; {
		var page rpc.GetAnswer
		err := c.retry(ctx, func(ctx context.Context) (err error) {
			page, err = c.client.Get(ctx, all)
			return err
		})
		if errors.Is(err, rpc.ErrTooLarge) && all.Limit > 1 {
			all.Limit = max(all.Limit/8, 1)
			continue
		}
		if err != nil {
			return 0, err
		}
		if all.Revision == 0 {
			all.Revision = page.Revision
		}
		size := 0
		for i := range page.Keys {
			size += len(page.Keys[i].Value)
			if !each(&page.Keys[i]) {
				return all.Revision, nil
			}
		}
		if !page.More {
			return all.Revision, nil
		}
		all.Key = page.Keys[len(page.Keys)-1].Key + "\x00"
		switch {
		case size < store.MaxPage/4:
			all.Limit = min(8*all.Limit, maxKeys)
		case size > store.MaxPage:
			all.Limit = max(all.Limit/8, 1)
		}
	}
}

// isCompacted reports whether the history that a call needs is no longer there.
func isCompacted(err error) bool {
	return errors.Is(err, rpc.ErrCompacted) || errors.Is(err, rpc.ErrFutureRevision)
}

// restrict returns the part of the changes of one transaction at and below prefix.
func (s *Store) restrict(rev int64, events []rpc.Event, prefix string) (c store.Change, size int) {
	c.Rev = store.Rev(rev)
	for _, e := range events {
		key := s.conn.record(e.Key)
		switch {
		case !store.Under(prefix, key):
		case e.Deleted:
			c.Deleted = append(c.Deleted, key)
			size += len(key)
		default:
			c.Put = append(c.Put, store.Record{Key: key, Value: e.Value, Rev: c.Rev})
			size += len(key) + len(e.Value)
		}
	}
	return c, size
}

// groups calls f with the events of each transaction.
func groups(events []rpc.Event, f func(rev int64, events []rpc.Event)) {
	for len(events) > 0 {
		rev := events[0].Revision
		n := slices.IndexFunc(events, func(e rpc.Event) bool { return e.Revision != rev })
		if n < 0 {
			n = len(events)
		}
		f(rev, events[:n])
		events = events[n:]
	}
}
