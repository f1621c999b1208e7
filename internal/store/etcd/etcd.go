// Package etcd implements the store of many machines: a prefix of the keys of an etcd cluster, which any number of
// processes use at the same time. Acknowledged changes are on the disks of a majority of its members. Reads see
// everything that was acknowledged before they began.
//
// Below the prefix are:
//
//	k/KEY         the records
//	n/PREFIX      the last sequence number that was used under PREFIX
//	l/LEASE       the epoch of a lease, attached to a lease of etcd, so that it ends with it
//	w/WRITER      the number of the last write of a connected process: see writers
//	epoch         the last epoch
//	compacted     the revision up to which the history is compacted next: see compactNowAndThen
//	importing     while it is filled by a copy, with importer and imported: see copy.go
//	format        what all this is
//
// Each Apply is one transaction of etcd. Its revision is that of etcd, which other users of the cluster move on, too.
package etcd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// Times. See also those of package rpc.
const (
	// patience bounds the time in which one call of a method asks all members for an answer. It is more than the time
	// in which the connection to a member that is silent is given up, and a new member leads.
	patience = 15 * time.Second
	// unreachable is the same if there is no connection to any member.
	unreachable = 5 * time.Second
	// attemptTime bounds one attempt, after which another member is asked.
	attemptTime = 2 * time.Second
	// farewell bounds what Close does for the next ones: it gives up leases.
	farewell = 2 * time.Second
)

// Store is a store.Store in etcd.
type Store struct {
	conn   *conn
	id     string
	logger *slog.Logger

	progress time.Duration // see progressInterval

	writers   writers
	checks    chan struct{} // has a token for each check that is under way; see apply.check
	sequences sequences
	leases    leases
	meter     store.Meter
	committed atomic.Pointer[func(took time.Duration)]
}

var _ store.Store = (*Store)(nil)

// format is the record that says what is kept below a prefix.
type format struct {
	Format int    `json:"format"`
	ID     string `json:"id"` // of the history
}

const currentFormat = 1

// Open connects to etcd, and begins an empty store if there is none below the prefix. If etcd does not answer, it
// fails with store.ErrUnavailable.
func Open(ctx context.Context, l Location, logger *slog.Logger) (*Store, error) {
	s, err := connect(l, logger)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, l.Endpoints); err != nil {
		s.Close()
		return nil, err
	}
	s.conn.calls.Go(s.compactNowAndThen)
	return s, nil
}

func connect(l Location, logger *slog.Logger) (*Store, error) {
	tlsConfig, err := l.tls()
	if err != nil {
		return nil, err
	}
	password, err := l.password()
	if err != nil {
		return nil, err
	}
	c := newConn(keys{prefix: l.Prefix + "/"}, l.withoutFiles().String(), l.userText())
	c.client, err = rpc.New(rpc.Config{Endpoints: l.Endpoints, TLS: tlsConfig, User: l.User, Password: password})
	if err != nil {
		c.cancel()
		return nil, c.translate("connecting to", err)
	}
	return &Store{
		conn:      c,
		logger:    logger,
		progress:  progressInterval,
		writers:   writers{conn: c, slots: make(chan struct{}, maxWriters)},
		checks:    make(chan struct{}, maxChecks),
		sequences: sequences{busy: make(chan struct{}, 1), known: map[string]counter{}},
		leases:    leases{conn: c, held: map[string]*lease{}, lost: map[store.Fence]bool{}},
		meter:     store.Meter{AtOnce: maxWriters},
	}, nil
}

// begin reads or makes the record of the format.
func (s *Store) begin(ctx context.Context, endpoints []string) error {
	if _, err := s.conn.current(ctx); err != nil {
		return s.conn.translate("opening", err)
	}
	if err := s.conn.checkVersion(ctx, endpoints); err != nil {
		return err
	}
	key := s.conn.prefix + "format"
	value, err := json.Marshal(format{currentFormat, rand.Text()})
	if err != nil {
		return err
	}
	var have []byte
	err = s.conn.retry(ctx, func(ctx context.Context) error {
		// A transaction without an answer may be repeated: it makes the record only if there is none.
		resp, err := s.conn.client.Txn(ctx, rpc.Txn{
			If:   []rpc.Compare{rpc.IsMissing(key)},
			Then: []rpc.Op{rpc.Put{Key: key, Value: value}},
			Else: []rpc.Op{rpc.Get{Key: key}},
		})
		switch {
		case err != nil:
			return err
		case resp.Succeeded:
			have = value
		case len(resp.Got[0].Keys) == 0:
			return errMissing
		default:
			have = resp.Got[0].Keys[0].Value
		}
		return nil
	})
	if err != nil {
		return s.conn.translate("opening", err)
	}
	var f format
	switch err := json.Unmarshal(have, &f); {
	case err != nil || f.Format < 1 || f.ID == "":
		return fmt.Errorf("the store %s cannot be used: %s is not a record of Coppice (%.40q); name another prefix",
			s.conn.where, key, have)
	case f.Format > currentFormat:
		return fmt.Errorf("the store %s cannot be used: it has format %d, and this version of Coppice knows %d; "+
			"use the version that made it", s.conn.where, f.Format, currentFormat)
	}
	s.id = f.ID
	return s.conn.translate("opening", s.checkImport(ctx))
}

// ID returns the ID of the history of the store, made when it began.
func (s *Store) ID() string { return s.id }

// String returns where the store is, without secrets.
func (s *Store) String() string { return s.conn.where }

// Writes returns what this process has written.
func (s *Store) Writes() store.Writes { return s.meter.Writes() }

// OnCommit has f called after each Apply that changed something, with the time that it has taken. f must not be slow.
func (s *Store) OnCommit(f func(took time.Duration)) { s.committed.Store(&f) }

// Close implements store.Store. It waits for calls that have been sent, up to 2 s if etcd does not answer, and gives
// up the leases that are held.
func (s *Store) Close() error {
	if !s.conn.stop() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	s.leases.end(ctx)
	s.writers.end(ctx)
	s.conn.client.Close() // its only errors are those of connections that are closed already
	return nil
}
