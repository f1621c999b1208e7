// Package sqlite implements the durable store of one machine: a SQLite file that
// one process has open. What Apply acknowledges survives SIGKILL and power loss.
//
// Writes go through one goroutine, which commits whatever has come in since its
// last commit as one transaction, with one fsync: 64 agents that write at once
// share it. Each Apply is still atomic by itself and gets its own result, since
// it is planned against the transaction so far before any of it is written
// (package local). Reads have connections of their own and wait for no writer.
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
	swap    sync.RWMutex // of what Maintain replaces: held by reads
	lock    *flock.Flock // nil while Repair uses it
	readers *sql.DB
	own     files   // needs busy of the writer
	writer  *writer // nil of one that OpenReadOnly has opened
	history *local.History
	leases  *local.Leases
	closing sync.Once
	closed  atomic.Bool
	err     error // of Close

	fileState  *fileState   // of one that OpenReadOnly has opened
	id         string       // of such a one
	unregister func() error // of its file system from SQLite

	damage  sync.Mutex
	damaged map[string]bool // keys of records with a wrong checksum; needs damage

	// Of maintain, for the next Maintain; they need swap.
	restored bool
	loss     error
	retry    time.Time // when guard may try again
}

var _ store.Store = (*Store)(nil)

// Path is the file that the store is kept in.
func (s *Store) Path() string { return s.path }

// ID names the history of the store: it is made with the file, and another one is made
// when the file is restored from a backup or repaired.
func (s *Store) ID() string {
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.writer == nil {
		return s.id
	}
	return s.writer.id
}

// Apply is store.Store's. It returns ErrUnknown only when the disk reports an
// error in the middle of a commit. While the disk is full or read-only it
// returns ErrFull or ErrReadOnly, and works again as soon as the disk does.
// A context that ends takes the write back if its transaction has not begun;
// else Apply waits for the result, which is a matter of one fsync.
func (s *Store) Apply(ctx context.Context, fence store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if err := store.CheckApply(conds, ops); err != nil {
		return 0, err
	}
	if s.writer == nil {
		return 0, store.ErrReadOnly
	}
	r := request{fence: fence, conds: conds, ops: ops, done: make(chan struct{})}
	if err := s.writer.do(ctx, &r); err != nil {
		return 0, err
	}
	return r.rev, nil
}

// Acquire is store.Store's. The lease itself is held in memory, since the file
// has one user only; epochs are durable.
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

// Watch is store.Store's. Changes are kept in memory, so that a store that was
// reopened begins with no history.
func (s *Store) Watch(ctx context.Context, prefix string, from store.Rev) iter.Seq2[store.Change, error] {
	return s.history.Watch(ctx, prefix, from)
}

// Snapshot is store.Store's.
func (s *Store) Snapshot(ctx context.Context, prefix string) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, "", 0, 0)
}

// Scan is store.Store's.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, store.Rev, error) {
	return s.read(ctx, prefix, after, limit, store.MaxPage)
}

// Close is store.Store's.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.leases.Close()
		if s.writer != nil {
			s.writer.end()
		}
		s.swap.Lock() // Maintain has ended
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

// closeFiles closes the connections, the last of which folds the write-ahead log into
// the file. It must be the one that was opened.
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

// read reads, once more if files that were removed, replaced or cut are in the way.
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
	if moved := s.fileState.check(s.path); moved != nil {
		return nil, 0, moved // which explains what has gone wrong, too
	}
	switch {
	case err == nil:
		// The transaction may be visible before its watches have been told.
		s.history.Await(rev)
		return page, rev, nil
	case ctx.Err() != nil:
		return nil, 0, ctx.Err()
	case s.closed.Load():
		return nil, 0, store.ErrClosed
	}
	return nil, 0, diagnose(s.path, "reading "+prefix, err)
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

// page collects records up to a bound.
type page struct {
	limit, maxBytes int
	damaged         func(key string) // is told of records that are left out
	records         []store.Record
	bytes           int
	full            bool
}

// query adds the records of a range. Its first argument is the key after which it begins.
func (p *page) query(ctx context.Context, tx *sql.Tx, where, from string, args ...any) error {
	for {
		last, more, err := p.rows(ctx, tx, where, append([]any{from}, args...))
		if err != nil || !more {
			return err
		}
		from = last // all were damaged up to here, and an empty page would be the end
	}
}

// rows adds records up to the bounds. more: the last of those that were left out is
// where to go on, and none was added.
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
		var rev, sum int64 // whatever damage that no check has found has made of it
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
