package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/coppice-dev/coppice/internal/store"
)

var (
	_ store.Exporter = (*Store)(nil)
	_ store.Importer = (*Store)(nil)
)

// Export implements store.Exporter. It reads in one transaction, so the write-ahead log grows with
// what is written meanwhile. Maintain waits for its end. Damaged names the records that are left
// out.
func (s *Store) Export(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		stopped := false
		err := s.export(ctx, func(e store.Entry) bool {
			stopped = !yield(e, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(store.Entry{}, err)
		}
	}
}

// export calls yield for each entry until it returns false.
func (s *Store) export(ctx context.Context, yield func(store.Entry) bool) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.readers == nil { // nothing was ever written
		return ctx.Err()
	}
	all, err := s.exportTx(ctx, func(e store.Entry) bool { return ctx.Err() == nil && yield(e) })
	if err == nil && !all {
		return ctx.Err()
	}
	return s.afterReading(ctx, "exporting", err)
}

// selectSequences selects the sequences. A record that was put directly below a prefix may have a
// greater number.
const selectSequences = `
SELECT prefix, max(last, coalesce((
	SELECT CAST(substr(key, -20) AS INTEGER) FROM record
	WHERE key >= prefix || '/0' AND key < prefix || '0' AND length(key) = length(prefix) + 21
		AND substr(key, -20) NOT GLOB '*[^0-9]*'
	ORDER BY key DESC LIMIT 1), 0))
FROM sequence ORDER BY prefix`

// exportTx calls yield for each entry, and reports whether it always returned true.
func (s *Store) exportTx(ctx context.Context, yield func(store.Entry) bool) (all bool, err error) {
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if all, err = exportNumbers(ctx, tx, yield); err != nil || !all {
		return false, err
	}
	rows, err := tx.QueryContext(ctx, `SELECT key, value, rev, sum FROM record ORDER BY key`)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		e := store.Entry{Kind: store.RecordEntry}
		var rev, sum int64 // may be any value in a damaged file
		if err := rows.Scan(&e.Key, &e.Value, &rev, &sum); err != nil {
			return false, err
		}
		if sum != checksum(e.Key, e.Value, store.Rev(rev)) {
			s.noteDamaged(e.Key)
			continue
		}
		if !yield(e) {
			return false, nil
		}
	}
	return true, rows.Err()
}

// exportNumbers calls yield for each sequence and the epoch.
func exportNumbers(ctx context.Context, tx *sql.Tx, yield func(store.Entry) bool) (all bool, err error) {
	rows, err := tx.QueryContext(ctx, selectSequences)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var prefix string
		var last int64
		if err := rows.Scan(&prefix, &last); err != nil {
			return false, err
		}
		if !yield(store.Entry{Kind: store.SequenceEntry, Key: prefix, Number: uint64(last)}) {
			return false, nil
		}
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	var epoch int64
	if err := tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'epoch'`).Scan(&epoch); err != nil {
		return false, err
	}
	return epoch == 0 || yield(store.Entry{Kind: store.EpochEntry, Number: uint64(epoch)}), nil
}

// importBytes is the size of keys and values from which they are written together.
const importBytes = 1 << 20

// Import implements store.Importer, in one transaction. The write-ahead log grows to the size of
// the content until the store is closed.
func (s *Store) Import(ctx context.Context, entries iter.Seq2[store.Entry, error]) error {
	if s.writer == nil {
		return store.ErrReadOnly
	}
	s.ensureFiles()
	s.swap.RLock() // Close waits
	defer s.swap.RUnlock()
	if s.closed.Load() {
		return store.ErrClosed
	}
	return s.writer.load(ctx, entries)
}

// load writes entries into the empty store.
func (w *writer) load(ctx context.Context, entries iter.Seq2[store.Entry, error]) error {
	w.busy.Lock()
	defer w.busy.Unlock()
	if err := w.begin(); err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			w.conn.rollback()
		}
	}()
	if empty, err := w.conn.empty(); err != nil {
		return w.diagnose("reading", err)
	} else if !empty {
		return fmt.Errorf("importing into %s: %w", w.path, store.ErrNotEmpty)
	}
	l := loader{conn: w.conn, rev: w.rev + 1}
	for e, err := range store.CheckEntries(ctx, entries) {
		if err != nil {
			return err
		}
		if err := l.add(e); err != nil {
			return w.diagnose("write", err)
		}
	}
	if l.n == 0 {
		return nil
	}
	open = false
	if err := w.finish(l.end()); err != nil {
		return err
	}
	w.reached(l.rev, l.epoch)
	clear(w.sequences)
	w.history.Forget(l.rev)
	return nil
}

// empty reports whether nothing was imported or appended, no lease taken, and no record is there.
func (c *conn) empty() (empty bool, err error) {
	err = c.QueryRowContext(context.Background(), `SELECT NOT EXISTS (SELECT 1 FROM record)
		AND NOT EXISTS (SELECT 1 FROM sequence) AND (SELECT value FROM meta WHERE name = 'epoch') = 0`).Scan(&empty)
	return empty, err
}

// loader writes entries into the open transaction.
type loader struct {
	*conn
	n     int // entries
	rev   store.Rev
	epoch uint64
	args  []any // of the records that are not written yet
	bytes int   // of their keys and values
}

func (l *loader) add(e store.Entry) error {
	l.n++
	switch e.Kind {
	case store.SequenceEntry:
		_, err := l.setSequence.Exec(e.Key, int64(e.Number))
		return err
	case store.EpochEntry:
		l.epoch = e.Number
		return nil
	}
	value := e.Value
	if value == nil {
		value = []byte{}
	}
	l.args = append(l.args, e.Key, value, int64(l.rev), checksum(e.Key, value, l.rev))
	l.bytes += len(e.Key) + len(value)
	if len(l.args) < l.putRows[0].rows*columns && l.bytes < importBytes {
		return nil
	}
	return l.flush()
}

func (l *loader) flush() error {
	err := l.putAll(l.args)
	clear(l.args)
	l.args, l.bytes = l.args[:0], 0
	return err
}

// end writes what is left.
func (l *loader) end() error {
	return errors.Join(l.flush(), l.set("epoch", l.epoch), l.set("rev", uint64(l.rev)))
}
