package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Report describes a completed Repair.
type Report struct {
	Aside    string // the new path of the old file; "" if it was intact
	Problem  string // what was wrong
	Salvaged int    // number of records in the new file
	Lost     error  // what could not be read, or nil; the number of lost records is unknown
}

// Repair makes the file at path usable. If Open would fail with a *FileError, the file is kept as
// path.damaged-TIME and a new one takes its place, with all records of a damaged file that can
// still be read. Nothing is copied from a file of a newer version or of another program. The new
// file is complete before the old one is touched, and nothing is ever deleted. The store must not
// be open.
//
// Revisions, sequence numbers and epochs continue after those that can be read.
func Repair(ctx context.Context, path string) (Report, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Report{}, err
	}
	lock, err := acquireLock(path)
	if err != nil {
		return Report{}, err
	}
	defer lock.Close()
	s, err := open(ctx, path)
	if err == nil {
		err = s.Verify(ctx)
		if closeErr := s.Close(); err == nil {
			return Report{}, closeErr
		}
	}
	var bad *FileError
	if !errors.As(err, &bad) {
		return Report{}, err
	}
	r := Report{Aside: asidePath(path, "damaged"), Problem: bad.Problem}
	work, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".repair-")
	if err != nil {
		return Report{}, fmt.Errorf("repairing the store: %w", pathError(path, err))
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "fresh")
	if err := build(ctx, path, fresh, bad.Kind, work, &r); err != nil {
		return Report{}, fmt.Errorf("repairing %s (it is as it was): %w", path, err)
	}
	if err := replace(path, fresh, r.Aside); err != nil {
		return Report{}, fmt.Errorf("repairing the store: %w", err)
	}
	return r, nil
}

// asidePath returns the name under which the old file of a store is kept.
func asidePath(path, why string) string {
	return path + "." + why + "-" + time.Now().UTC().Format("20060102T150405.000Z")
}

// build creates the new file and closes it.
func build(ctx context.Context, path, fresh string, kind Kind, work string, r *Report) error {
	s, err := open(ctx, fresh)
	if err != nil {
		return err
	}
	// Nothing else uses this store, so its connection is free.
	if kind == Damaged || kind == Lost {
		_, reached, _ := readMark(path)
		r.Salvaged, r.Lost, err = salvage(ctx, path, filepath.Join(work, "copy"), s.writer.conn, reached)
	}
	return errors.Join(err, s.writer.reload(), s.Close())
}

// replace keeps the old files under a new name and puts the new file in place. An interruption
// loses nothing: both old files have their new names before one of the old names is removed. The
// new file must not meet the old log, which SQLite would replay into it.
func replace(path, fresh, aside string) error {
	for _, suffix := range fileSuffixes[:2] {
		err := os.Link(path+suffix, aside+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = copyFile(path+suffix, aside+suffix) // the file system has no links
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, suffix := range fileSuffixes[1:] {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return install(fresh, path)
}

// install renames a new file and its mark to the names of the store.
func install(fresh, path string) error {
	for _, suffix := range []string{"", markSuffix} {
		if err := os.Rename(fresh+suffix, path+suffix); err != nil {
			return err
		}
	}
	return syncFile(filepath.Dir(path))
}

// salvage copies all records that can be read. It reads a copy of the file, since even reading
// may change a database with a write-ahead log. lost describes what could not be read.
func salvage(ctx context.Context, path, copied string, to *conn, reached store.Rev) (n int, lost, err error) {
	for _, suffix := range fileSuffixes[:2] {
		if err := copyFile(path+suffix, copied+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, nil, err
		}
	}
	from, err := sql.Open("sqlite", dsn(copied, "query_only(1)"))
	if err != nil {
		return 0, nil, err
	}
	defer from.Close()
	from.SetMaxOpenConns(1)
	return rescue(ctx, from, to, reached)
}

// rescue writes all records that can be read into a new file. Its revisions are greater than the
// one that the old file had reached.
func rescue(ctx context.Context, from querier, to *conn, reached store.Rev) (n int, lost, err error) {
	if err := to.exec("BEGIN IMMEDIATE"); err != nil {
		return 0, nil, err
	}
	defer to.rollback() // does nothing after the commit
	rescue := rescuer{ctx: ctx, from: from}
	// A row with a value of the wrong type is lost.
	rescue.table(`SELECT name, value FROM meta`, 2, func(v []any) error {
		if _, ok := v[1].(int64); !ok {
			return nil
		}
		_, err := to.setMeta.Exec(v[1], v[0])
		return err
	}, "name")
	rescue.table(`SELECT prefix, last FROM sequence`, 2, func(v []any) error {
		prefix, _ := v[0].(string)
		if _, ok := v[1].(int64); !ok || store.CheckKey(prefix) != nil {
			return nil // rebuilt from the records, see advanceCounters
		}
		_, err := to.setSequence.Exec(v...)
		return err
	}, "prefix")
	put := to.putRows[len(to.putRows)-1].stmt
	query := `SELECT key, value, rev, sum FROM record`
	rows, err := from.QueryContext(ctx, query+" LIMIT 0")
	if err == nil {
		err = errors.Join(rows.Err(), rows.Close())
	}
	if err != nil { // of a version without checksums
		query = `SELECT key, value, rev, coppice_sum(key, value, rev) FROM record`
	}
	rescue.table(query, 4, func(v []any) error {
		key, _ := v[0].(string)
		value, _ := v[1].([]byte)
		rev, _ := v[2].(int64)
		if sum := checksum(key, value, store.Rev(rev)); v[3] != sum {
			rescue.lost = errors.Join(rescue.lost, fmt.Errorf("record %.100q: %w", key, errChecksum))
			return nil
		}
		if store.CheckKey(key) != nil || rev <= 0 || len(value) > store.MaxValue {
			rescue.lost = errors.Join(rescue.lost, fmt.Errorf("record %.100q is none", key))
			return nil
		}
		if value == nil {
			value = []byte{}
		}
		_, err := put.Exec(key, value, rev, v[3])
		return err
	}, "key")
	if rescue.err != nil {
		return 0, nil, rescue.err
	}
	if err := to.advanceCounters(ctx, reached); err != nil {
		return 0, nil, err
	}
	if err := to.QueryRowContext(ctx, `SELECT count(*) FROM record`).Scan(&n); err != nil {
		return 0, nil, err
	}
	return n, rescue.lost, to.exec("COMMIT")
}

// advanceCounters makes the counters greater than everything that was salvaged. The revision gets
// a large margin, since later ones may have been assigned and lost. The sequence of each prefix
// becomes at least that of its last record.
func (c *conn) advanceCounters(ctx context.Context, reached store.Rev) error {
	_, err := c.ExecContext(ctx, raiseCounters, int64(reached))
	return err
}

const raiseCounters = `
UPDATE meta SET value = 1000 + max(value, ?, (SELECT coalesce(max(rev), 0) FROM record)) WHERE name = 'rev';
UPDATE meta SET value = max(value, CAST(strftime('%s') AS INTEGER)) WHERE name = 'epoch';
INSERT INTO sequence (prefix, last)
	SELECT substr(key, 1, length(key) - 21), max(CAST(substr(key, -20) AS INTEGER)) FROM record
	WHERE key GLOB '*/[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]'
	GROUP BY 1
	ON CONFLICT (prefix) DO UPDATE SET last = max(last, excluded.last);`

// querier is an *sql.DB or one of its connections.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// rescuer reads tables of a damaged file.
type rescuer struct {
	ctx  context.Context
	from querier
	lost error // the errors of reading
	err  error // the error of writing
}

// table reads a table from the start up to the first row that cannot be read, and then backwards
// from the end, so a bad page costs little more than itself.
func (r *rescuer) table(query string, columns int, keep func([]any) error, key string) {
	err := r.rows(query+" ORDER BY "+key, columns, keep)
	if err == nil || r.err != nil {
		return
	}
	r.lost = errors.Join(r.lost, err)
	r.rows(query+" ORDER BY "+key+" DESC", columns, keep)
}

func (r *rescuer) rows(query string, columns int, keep func([]any) error) error {
	if r.err != nil {
		return r.err
	}
	rows, err := r.from.QueryContext(r.ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	values := make([]any, columns)
	targets := make([]any, columns)
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if r.err = keep(values); r.err != nil {
			return r.err
		}
	}
	return rows.Err()
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
