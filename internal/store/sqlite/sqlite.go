// Package sqlite implements the durable store of one machine: a SQLite file that one process has
// open. Acknowledged changes survive SIGKILL and power loss.
//
// Writes go through one goroutine. It commits everything that has arrived since its last commit
// as one transaction, with one fsync: 64 agents that write concurrently share it. Each Apply is
// still atomic and gets its own result, since it is planned against the transaction so far before
// any of it is written (package local). Reads have connections of their own and never wait for a
// writer.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/local"
)

// Store is a store.Store in a SQLite file.
type Store struct {
	path    string
	swap    sync.RWMutex // held by reads while they use what Maintain replaces
	lock    *flock.Flock // nil while Repair uses it
	readers *sql.DB
	own     files   // needs writer.busy
	writer  *writer // nil if opened by OpenReadOnly
	history *local.History
	leases  *local.Leases
	meter   store.Meter
	closing sync.Once
	closed  atomic.Bool
	err     error // of Close

	fileState  *fileState   // set by OpenReadOnly
	id         string       // set by OpenReadOnly
	unregister func() error // unregisters the file system from SQLite

	damage  sync.Mutex
	damaged map[string]bool // keys of records with a wrong checksum; needs damage

	// Results of maintain for the next Maintain; they need swap.
	restored bool
	loss     error
	retry    time.Time // when ensureFiles may try again
}

var _ store.Store = (*Store)(nil)

// Path returns the path of the file of the store.
func (s *Store) Path() string { return s.path }

// ID returns the ID of the history of the store. It is created with the file, and changes when
// the file is restored from a backup or repaired.
func (s *Store) ID() string {
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.writer == nil {
		return s.id
	}
	return s.writer.id
}

// Writes returns what this process has written.
func (s *Store) Writes() store.Writes { return s.meter.Writes() }

// maxOps is the number of ops of one Apply: each waits for a sync, so that what comes in a burst is
// written together.
const maxOps = 2000

// MaxOps is the number of ops that one Apply may have: see store.MaxOpsOf.
func (s *Store) MaxOps() int { return maxOps }

// OnCommit has f called after each commit with the time that it has taken, of a group of calls. f must not be slow.
func (s *Store) OnCommit(f func(took time.Duration)) { s.writer.committed.Store(&f) }

// Apply implements store.Store. It returns ErrUnknown only if the disk reports an error in the
// middle of a commit. While the disk is full or read-only it returns ErrFull or ErrReadOnly, and
// works again as soon as the disk does. If the context ends before the transaction has begun, the
// write is withdrawn; after that, Apply waits for the result, which takes one fsync.
func (s *Store) Apply(ctx context.Context, fence store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if err := store.CheckApply(maxOps, conds, ops); err != nil {
		return 0, err
	}
	if s.writer == nil {
		return 0, store.ErrReadOnly
	}
	r := request{fence: fence, conds: conds, ops: ops, done: make(chan struct{})}
	if err := s.writer.do(ctx, &r); err != nil {
		return 0, err
	}
	s.meter.Count(ops)
	return r.rev, nil
}

// Acquire implements store.Store. The lease itself is held in memory, since the file has only one
// user; epochs are durable.
func (s *Store) Acquire(ctx context.Context, name string, ttl time.Duration) (store.Lease, error) {
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	if s.writer == nil {
		return nil, store.ErrReadOnly
	}
	return s.leases.Acquire(name, ttl, func() (uint64, error) {
		r := request{newEpoch: true, done: make(chan struct{})}
		err := s.writer.do(ctx, &r)
		return r.epoch, err
	})
}

// Resume implements store.Store. Leases end with the process.
func (s *Store) Resume(ctx context.Context, f store.Fence, ttl time.Duration) (store.Lease, error) {
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.leases.Resume(f, ttl)
}

// Watch implements store.Store. Changes are kept in memory, so a reopened store starts without
// history.
func (s *Store) Watch(ctx context.Context, prefix string, from store.Rev) iter.Seq2[store.Change, error] {
	return s.history.Watch(ctx, prefix, from)
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, prefix string) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, "", 0, 0)
}

// Scan implements store.Store.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, after, limit, store.MaxPage)
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.leases.Close()
		if s.writer != nil {
			s.writer.end()
		}
		s.swap.Lock() // waits for Maintain to return
		defer s.swap.Unlock()
		s.err = s.closeFiles()
		if s.history != nil {
			s.history.Close()
		}
		if s.unregister != nil {
			s.err = errors.Join(s.err, s.unregister())
		}
		if s.lock != nil {
			s.err = errors.Join(s.err, s.lock.Close())
		}
		if s.err != nil {
			s.err = fmt.Errorf("closing %s: %w", s.path, s.err)
		}
	})
	return s.err
}

// closeFiles closes the connections. The last one checkpoints the write-ahead log into the file,
// so the files must still be the ones that were opened.
func (s *Store) closeFiles() error {
	w := s.writer
	if w != nil {
		defer w.mark.close()
	}
	switch {
	case w != nil && w.conn != nil:
	case s.readers != nil:
		return s.readers.Close()
	default:
		return nil
	}
	if now, err := statFiles(s.path); err == nil && !s.intact(now) {
		return s.save(context.Background(), now)
	}
	return errors.Join(w.conn.close(), w.db.Close(), s.readers.Close())
}

// read reads, and tries once more if the files had to be written again.
func (s *Store) read(ctx context.Context, prefix, after string, limit, maxBytes int) ([]store.Record, store.Rev,
	error) {
	records, rev, err := s.readOnce(ctx, prefix, after, limit, maxBytes)
	if err == nil || ctx.Err() != nil || s.writer == nil || s.closed.Load() || !s.ensureFiles() {
		return records, rev, err
	}
	return s.readOnce(ctx, prefix, after, limit, maxBytes)
}

func (s *Store) readOnce(ctx context.Context, prefix, after string, limit, maxBytes int) ([]store.Record, store.Rev,
	error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, 0, err
	}
	if s.closed.Load() {
		return nil, 0, store.ErrClosed
	}
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.readers == nil { // nothing was ever written
		return nil, 0, nil
	}
	page, rev, err := s.readTx(ctx, prefix, after, limit, maxBytes)
	if err = s.afterReading(ctx, "reading "+prefix, err); err != nil {
		return nil, 0, err
	}
	// A transaction may be visible before it is published to watches.
	s.history.Await(rev)
	return page, rev, nil
}

func (s *Store) readTx(ctx context.Context, prefix, after string, limit, maxBytes int) ([]store.Record, store.Rev,
	error) {
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, 0, err
	}
	defer tx.Rollback()
	var rev store.Rev
	if err := tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'rev'`).Scan(&rev); err != nil {
		return nil, 0, err
	}
	p := page{limit: limit, maxBytes: maxBytes, damaged: s.noteDamaged}
	if prefix == "" {
		err = p.query(ctx, tx, `WHERE key > ? ORDER BY key`, after)
		return p.records, rev, err
	}
	if after < prefix {
		_, _, err = p.rows(ctx, tx, `WHERE key = ?`, []any{prefix})
	}
	if err == nil && !p.full {
		// '0' is the character after '/'.
		err = p.query(ctx, tx, `WHERE key > ? AND key < ? ORDER BY key`, max(after, prefix+"/"), prefix+"0")
	}
	return p.records, rev, err
}

// page collects records up to a limit.
type page struct {
	limit, maxBytes int
	damaged         func(key string) // called for each record that is skipped
	records         []store.Record
	bytes           int
	full            bool
}

// query adds the records of a range. Its first argument is the key after which the range begins.
func (p *page) query(ctx context.Context, tx *sql.Tx, where, from string, args ...any) error {
	for {
		last, more, err := p.rows(ctx, tx, where, append([]any{from}, args...))
		if err != nil || !more {
			return err
		}
		from = last // all records up to here were damaged, and an empty page would mean the end
	}
}

// rows adds records up to the limits. If more is true, no record was added, and last is the key
// of the last damaged one, after which to continue.
func (p *page) rows(ctx context.Context, tx *sql.Tx, where string, args []any) (last string, more bool, err error) {
	query := `SELECT key, value, rev, sum FROM record ` + where
	left := p.limit - len(p.records)
	if p.limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", left)
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return "", false, err
	}
	defer rows.Close()
	n, before := 0, len(p.records)
	for rows.Next() {
		var r store.Record
		var rev, sum int64 // may be any value in a damaged file
		if err := rows.Scan(&r.Key, &r.Value, &rev, &sum); err != nil {
			return "", false, err
		}
		n++
		r.Rev = store.Rev(rev)
		if sum != checksum(r.Key, r.Value, r.Rev) {
			p.damaged(r.Key)
			last = r.Key
			continue
		}
		p.bytes += len(r.Value)
		if p.maxBytes > 0 && p.bytes > p.maxBytes && len(p.records) > 0 {
			p.full = true
			return "", false, nil
		}
		p.records = append(p.records, r)
	}
	p.full = p.limit > 0 && len(p.records) == p.limit
	return last, p.limit > 0 && n == left && len(p.records) == before && n > 0, rows.Err()
}
