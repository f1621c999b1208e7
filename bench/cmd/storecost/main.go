//go:build linux

// Command storecost measures what the stores cost, next to what they are made of: the official client of etcd, and
// SQLite with nothing around it. It starts the servers of etcd by itself, on this machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/report"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

func main() {
	impl := flag.String("impl", "", "raw-etcd, coppice-etcd, raw-sqlite or coppice-sqlite")
	server := flag.String("etcd", "", "the server of etcd, for raw-etcd and coppice-etcd")
	n := flag.Int("n", 1, "members of the cluster of etcd")
	span := flag.Duration("d", 3*time.Second, "how long each kind of write is measured")
	records := flag.Int("records", 10_000, "records of a snapshot")
	rounds := flag.Int("rounds", 20, "snapshots and leases, and a tenth of the changes that are watched")
	flag.Parse()
	row, err := measure(context.Background(), program{*impl, *server, *n}, sizes{*span, *records, *rounds})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "storecost:", err)
		os.Exit(1)
	}
}

// program is a measured implementation with what it needs.
type program struct {
	impl, server string
	members      int
}

// backend keeps records and logs durably.
type backend interface {
	// write does all of w in one step, and returns its revision.
	write(ctx context.Context, w write) (int64, error)
	// count reads all records of a log at once.
	count(ctx context.Context, log string) (int, error)
	close() error
}

// write is a record, an addition to a log, or both.
type write struct {
	key    string // of the record; empty for none
	value  []byte
	rev    int64 // that the record has; 0 if there is none yet
	log    string
	events [][]byte
}

// follower is a backend that tells of changes.
type follower interface {
	// follow calls changed for each change of a record after a revision, until ctx ends.
	follow(ctx context.Context, key string, after int64, changed func()) error
}

// lessor is a backend that gives leases.
type lessor interface {
	acquire(ctx context.Context, name string, ttl time.Duration) (lease, error)
}

type lease interface {
	Renew(ctx context.Context) error
	Release(ctx context.Context) error
}

func (p program) open(ctx context.Context, dir string) (backend, error) {
	switch p.impl {
	case "raw-sqlite":
		return openRawSQLite(ctx, dir)
	case "coppice-sqlite":
		return openSQLite(ctx, dir)
	case "raw-etcd", "coppice-etcd":
		servers, err := etcdtest.Run(p.server, dir, etcdtest.Options{Members: p.members})
		if err != nil {
			return nil, err
		}
		open := openEtcd
		if p.impl == "raw-etcd" {
			open = openRawEtcd
		}
		b, err := open(ctx, servers)
		if err != nil {
			servers.Stop()
			return nil, err
		}
		return served{b, servers}, nil
	}
	return nil, fmt.Errorf("unknown implementation %q", p.impl)
}

// etcdBackend is a backend in etcd, which offers everything.
type etcdBackend interface {
	backend
	follower
	lessor
}

// served is a backend whose servers end with it.
type served struct {
	etcdBackend
	servers *etcdtest.Servers
}

func (s served) close() error {
	defer s.servers.Stop()
	return s.etcdBackend.close()
}

func measure(ctx context.Context, p program, s sizes) (row report.Row, err error) {
	dir, err := os.MkdirTemp("", "storecost-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	b, err := p.open(ctx, dir)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	m := meter{backend: b, sizes: s, metrics: map[string]float64{}}
	for _, figure := range []func(context.Context) error{m.writes, m.snapshot, m.watch, m.lease} {
		if err := figure(ctx); err != nil {
			return row, err
		}
	}
	return report.Row{Impl: p.impl, Scenario: "store", N: p.members, Metrics: m.metrics}, nil
}
