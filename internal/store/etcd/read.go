package etcd

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coppice-dev/coppice/internal/store"
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
	if err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.calls.Done()
	var page []store.Record
	bytes := 0
	from, to := s.bounds(prefix)
	if after != "" {
		from = max(from, s.key(after)+"\x00")
	}
	rev, err := s.pages(ctx, from, to, 0, func(kv *mvccpb.KeyValue) bool {
		r := store.Record{Key: s.record(kv.Key), Value: kv.Value, Rev: store.Rev(kv.ModRevision)}
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
		return nil, 0, s.translate("reading "+prefix+" from", err)
	}
	return page, store.Rev(rev), nil
}

// bounds returns the range of keys of etcd that has all records at and below a prefix, and a few others.
func (s *Store) bounds(prefix string) (from, to string) {
	if prefix == "" {
		return s.key(""), s.prefix + "k0" // '0' is the character after '/'
	}
	return s.key(prefix), s.key(prefix) + "0"
}

// pages calls each for the keys of a range in their order, as of one revision, until it returns false. It returns the
// revision. With rev 0 that is the current one.
func (s *Store) pages(ctx context.Context, from, to string, rev int64, each func(*mvccpb.KeyValue) bool,
	options ...clientv3.OpOption) (int64, error) {
	for keys := int64(minKeys); ; {
		var resp *clientv3.GetResponse
		err := s.retry(ctx, func(ctx context.Context) error {
			var err error
			resp, err = s.client.Get(ctx, from, append(options, clientv3.WithRange(to), clientv3.WithLimit(keys),
				clientv3.WithRev(rev))...)
			return err
		})
		if err != nil {
			return 0, err
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		size := 0
		for _, kv := range resp.Kvs {
			size += len(kv.Value)
			if !each(kv) {
				return rev, nil
			}
		}
		if !resp.More {
			return rev, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		switch {
		case size < store.MaxPage/4:
			keys = min(8*keys, maxKeys)
		case size > store.MaxPage:
			keys = max(keys/8, 1)
		}
	}
}

// isCompacted reports whether the history that a call needs is no longer there.
func isCompacted(err error) bool {
	return errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrFutureRev)
}

// restrict returns the part of the changes of one transaction at and below prefix.
func (s *Store) restrict(rev int64, events []*clientv3.Event, prefix string) (c store.Change, size int) {
	c.Rev = store.Rev(rev)
	for _, e := range events {
		key := s.record(e.Kv.Key)
		switch {
		case !store.Under(prefix, key):
		case e.Type == clientv3.EventTypeDelete:
			c.Deleted = append(c.Deleted, key)
			size += len(key)
		default:
			c.Put = append(c.Put, store.Record{Key: key, Value: e.Kv.Value, Rev: c.Rev})
			size += len(key) + len(e.Kv.Value)
		}
	}
	return c, size
}

// groups calls f with the events of each transaction.
func groups(events []*clientv3.Event, f func(rev int64, events []*clientv3.Event)) {
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		n := slices.IndexFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision != rev })
		if n < 0 {
			n = len(events)
		}
		f(rev, events[:n])
		events = events[n:]
	}
}
