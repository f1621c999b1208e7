//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// rawEtcd is the official client: one transaction for each write, without what finds out after a failure whether it
// was done. It numbers events by itself, as if no other process did.
type rawEtcd struct {
	client *clientv3.Client
	last   atomic.Uint64 // number of an event
}

func openRawEtcd(ctx context.Context, servers *etcdtest.Servers) (etcdBackend, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: servers.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	if _, err := client.Get(ctx, "first"); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &rawEtcd{client: client}, nil
}

func eventKey(log string, n uint64) string { return fmt.Sprintf("%s/%020d", log, n) }

func (r *rawEtcd) write(ctx context.Context, w write) (int64, error) {
	var ifs []clientv3.Cmp
	var then []clientv3.Op
	if w.key != "" {
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(w.key), "=", w.rev))
		then = append(then, clientv3.OpPut(w.key, string(w.value)))
	}
	for _, e := range w.events {
		then = append(then, clientv3.OpPut(eventKey(w.log, r.last.Add(1)), string(e)))
	}
	resp, err := r.client.Txn(ctx).If(ifs...).Then(then...).Commit()
	switch {
	case err != nil:
		return 0, err
	case !resp.Succeeded:
		return 0, fmt.Errorf("%s is not at revision %d", w.key, w.rev)
	}
	return resp.Header.Revision, nil
}

func (r *rawEtcd) count(ctx context.Context, log string) (int, error) {
	resp, err := r.client.Get(ctx, log+"/", clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	return len(resp.Kvs), nil
}

func (r *rawEtcd) follow(ctx context.Context, key string, after int64, changed func()) error {
	for resp := range r.client.Watch(ctx, key, clientv3.WithRev(after+1)) {
		if err := resp.Err(); err != nil {
			return err
		}
		for range resp.Events {
			changed()
		}
	}
	return ctx.Err()
}

// acquire takes a lease of etcd with a record that only one holder can make.
func (r *rawEtcd) acquire(ctx context.Context, name string, ttl time.Duration) (lease, error) {
	grant, err := r.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(name), "=", 0)).
		Then(clientv3.OpPut(name, "", clientv3.WithLease(grant.ID))).Commit()
	if err == nil && !resp.Succeeded {
		err = fmt.Errorf("%s is held", name)
	}
	return rawLease{r.client, grant.ID}, err
}

func (r *rawEtcd) close() error { return r.client.Close() }

type rawLease struct {
	client *clientv3.Client
	id     clientv3.LeaseID
}

func (l rawLease) Renew(ctx context.Context) error {
	_, err := l.client.KeepAliveOnce(ctx, l.id)
	return err
}

func (l rawLease) Release(ctx context.Context) error {
	_, err := l.client.Revoke(ctx, l.id)
	return err
}

// rawSQLite is SQLite with the settings of the store: a prepared statement for each record, and a commit for each
// write. It checks no conditions, and has no watches and leases.
type rawSQLite struct {
	db     *sql.DB
	insert *sql.Stmt
	last   atomic.Uint64 // number of an event
}

func openRawSQLite(ctx context.Context, dir string) (backend, error) {
	settings := url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(full)", "trusted_schema(0)",
		"cell_size_check(1)", "journal_mode(wal)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)",
		"cache_size(-1536)"}, "_txlock": {"immediate"}}
	file := url.URL{Scheme: "file", Path: filepath.Join(dir, "raw.db"), RawQuery: settings.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // several would only wait for each other's lock
	r := &rawSQLite{db: db}
	_, err = db.ExecContext(ctx, `CREATE TABLE record (key TEXT PRIMARY KEY, value BLOB NOT NULL, `+
		`rev INTEGER NOT NULL) WITHOUT ROWID, STRICT`)
	if err == nil {
		r.insert, err = db.PrepareContext(ctx, `INSERT OR REPLACE INTO record (key, value, rev) VALUES (?, ?, ?)`)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

func (r *rawSQLite) write(ctx context.Context, w write) (int64, error) {
	rev := w.rev + 1
	if len(w.events) == 0 {
		_, err := r.insert.ExecContext(ctx, w.key, w.value, rev)
		return rev, err
	}
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	insert := tx.StmtContext(ctx, r.insert)
	if w.key != "" {
		_, err = insert.ExecContext(ctx, w.key, w.value, rev)
	}
	for _, e := range w.events {
		if err == nil {
			_, err = insert.ExecContext(ctx, eventKey(w.log, r.last.Add(1)), e, rev)
		}
	}
	if err != nil {
		return 0, err
	}
	return rev, tx.Commit()
}

func (r *rawSQLite) count(ctx context.Context, log string) (int, error) {
	rows, err := r.db.QueryContext(ctx, `SELECT key, value, rev FROM record WHERE key > ? AND key < ? ORDER BY key`,
		log+"/", log+"0") // '0' is the character after '/'
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	type record struct {
		key   string
		value []byte
		rev   int64
	}
	var all []record
	for rows.Next() {
		var one record
		if err := rows.Scan(&one.key, &one.value, &one.rev); err != nil {
			return 0, err
		}
		all = append(all, one)
	}
	return len(all), rows.Err()
}

func (r *rawSQLite) close() error { return r.db.Close() }
