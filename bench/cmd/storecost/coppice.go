//go:build linux

package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// stored is a store of Coppice.
type stored struct{ store.Store }

func openSQLite(ctx context.Context, dir string) (backend, error) {
	s, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"))
	if err != nil {
		return nil, err
	}
	return stored{s}, nil
}

func openEtcd(ctx context.Context, servers *etcdtest.Servers) (etcdBackend, error) {
	l, err := etcd.ParseLocation(servers.URL("bench"))
	if err != nil {
		return nil, err
	}
	s, err := etcd.Open(ctx, l, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return stored{s}, nil
}

func (s stored) write(ctx context.Context, w write) (int64, error) {
	var conds []store.Cond
	var ops []store.Op
	if w.key != "" {
		conds = append(conds, store.Cond{Key: w.key, Rev: store.Rev(w.rev)})
		ops = append(ops, store.Op{Kind: store.Put, Key: w.key, Value: w.value})
	}
	for _, e := range w.events {
		ops = append(ops, store.Op{Kind: store.Append, Key: w.log, Value: e})
	}
	rev, err := s.Apply(ctx, store.Fence{}, conds, ops)
	return int64(rev), err
}

func (s stored) count(ctx context.Context, log string) (int, error) {
	records, _, err := s.Snapshot(ctx, log)
	return len(records), err
}

func (s stored) follow(ctx context.Context, key string, after int64, changed func()) error {
	for _, err := range s.Watch(ctx, key, store.Rev(after)) {
		if err != nil {
			return err
		}
		changed()
	}
	return nil
}

func (s stored) acquire(ctx context.Context, name string, ttl time.Duration) (lease, error) {
	return s.Acquire(ctx, name, ttl)
}

func (s stored) close() error { return s.Close() }
