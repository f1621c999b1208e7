package etcd

import (
	"context"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// compactInterval is the least time for which etcd keeps its history, from which interrupted watches resume.
const compactInterval = 5 * time.Minute

// compactNowAndThen has etcd drop its history, which it does not do by itself unless told. All processes that are
// connected take turns: each time, the first one compacts up to the revision that the one before has noted, which was
// compactInterval ago.
func (s *Store) compactNowAndThen() {
	tick := time.NewTicker(compactInterval)
	defer tick.Stop()
	last, noted := int64(0), int64(0) // the revision of the record, and in it
	for {
		select {
		case <-s.conn.closing:
			return
		case <-tick.C:
		}
		var err error
		if last, noted, err = s.compactOnce(last, noted); err != nil {
			s.logger.Debug("etcd was not compacted", "store", s.conn.where, "error", err)
		}
	}
}

// compactOnce compacts up to noted, if the record is the one that this process saw last, and notes the current
// revision for the next time.
func (s *Store) compactOnce(last, noted int64) (nowLast, nowNoted int64, err error) {
	key := s.conn.prefix + "compacted"
	current, err := s.conn.current(s.conn.ctx)
	if err != nil {
		return last, noted, err
	}
	var resp rpc.TxnAnswer
	err = s.conn.attempt(s.conn.ctx, func(ctx context.Context) (err error) {
		resp, err = s.conn.client.Txn(ctx, rpc.Txn{
			If:   []rpc.Compare{rpc.HasRevision(key, last)},
			Then: []rpc.Op{rpc.Put{Key: key, Value: strconv.AppendInt(nil, current, 10)}},
			Else: []rpc.Op{rpc.Get{Key: key}},
		})
		return err
	})
	if err != nil {
		return last, noted, err
	}
	if !resp.Succeeded {
		kvs := resp.Got[0].Keys
		if len(kvs) == 0 {
			return 0, 0, nil
		}
		noted, _ = strconv.ParseInt(string(kvs[0].Value), 10, 64) // 0 compacts nothing
		return kvs[0].Revision, noted, nil
	}
	if noted > 0 {
		err = s.conn.attempt(s.conn.ctx, func(ctx context.Context) error { return s.conn.client.Compact(ctx, noted) })
		if isCompacted(err) {
			err = nil // up to there or further, by somebody else
		}
	}
	return resp.Revision, current, err
}
