package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the driver; no cgo

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/local"
)

// applicationID marks the file as a store of Coppice ("Copp"), for file(1) and for Open.
const applicationID = 0x436f7070

// migrations lead from one version of the schema to the next; user_version counts those that were
// applied. Only append to the list.
var migrations = []string{
	`CREATE TABLE record (key TEXT PRIMARY KEY, value BLOB NOT NULL, rev INTEGER NOT NULL) WITHOUT ROWID, STRICT;
	 CREATE TABLE sequence (prefix TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID, STRICT;
	 CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID, STRICT;
	 INSERT INTO meta VALUES ('rev', 0), ('epoch', 0);`,
	`CREATE TABLE identity (id TEXT NOT NULL) STRICT;
	 INSERT INTO identity VALUES (lower(hex(randomblob(8))));`,
	`ALTER TABLE record ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
	 UPDATE record SET sum = coppice_sum(key, value, rev);`,
}

// readConns is the number of concurrent reads.
const readConns = 4

// Open opens the store in the file at path. It creates the file, readable only by its owner, if
// it does not exist. Its directory must exist.
//
// It fails with ErrInUse if the file is already open, here or in another process. It fails with a
// *FileError if the file cannot be used as it is; Repair can help then.
func Open(ctx context.Context, path string) (*Store, error) { return locked(ctx, path, open) }

// locked takes the lock of a store and opens it.
func locked(ctx context.Context, path string, open func(context.Context, string) (*Store, error)) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	lock, err := acquireLock(path)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	s.lock = lock
	return s, nil
}

// open opens a store whose lock the caller holds.
func open(ctx context.Context, path string) (*Store, error) {
	if err := checkPresent(path); err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	writeDB, err := sql.Open("sqlite", dsn(path, "foreign_keys(0)"))
	if err != nil {
		return nil, err
	}
	w, err := newWriter(ctx, path, writeDB)
	if err != nil {
		writeDB.Close()
		return nil, diagnose(path, "opening", err)
	}
	if err := checkReached(path, w.id, w.rev); err != nil {
		return nil, errors.Join(err, w.conn.close(), writeDB.Close())
	}
	readers, err := openReaders(ctx, path)
	if err != nil {
		return nil, errors.Join(err, w.conn.close(), writeDB.Close())
	}
	s := newStore(w, readers)
	if err = s.recordFiles(); err != nil {
		return nil, errors.Join(err, readers.Close(), w.conn.close(), writeDB.Close())
	}
	go w.loop()
	return s, nil
}

// newStore returns the store of a writer, whose loop has not started yet.
func newStore(w *writer, readers *sql.DB) *Store {
	s := &Store{path: w.path, readers: readers, writer: w, history: w.history, leases: w.leases,
		damaged: map[string]bool{}}
	w.ensureFiles = s.ensureFiles
	return s
}

// recordFiles records the state of the files, and writes the mark.
func (s *Store) recordFiles() (err error) {
	if s.own, err = statFiles(s.path); err != nil {
		return err
	}
	var unsafe *private.Error
	if s.writer.mark, err = openMark(s.path, s.writer.id, s.writer.rev); errors.As(err, &unsafe) {
		return fmt.Errorf("opening the store: %w", err)
	}
	return nil
}

// openReaders opens all reading connections immediately. One that is opened later might find that
// the file was removed or replaced.
func openReaders(ctx context.Context, path string) (*sql.DB, error) {
	readers, err := sql.Open("sqlite", dsn(path, "query_only(1)")+"&mode=rw")
	if err != nil {
		return nil, err
	}
	readers.SetMaxOpenConns(readConns)
	readers.SetMaxIdleConns(readConns)
	for range readConns {
		c, err := readers.Conn(ctx)
		if err == nil {
			defer c.Close() // back into the pool, when all are there
			err = c.QueryRowContext(ctx, `SELECT value FROM meta`).Scan(new(any))
		}
		if err != nil {
			return nil, errors.Join(diagnose(path, "opening", err), readers.Close())
		}
	}
	return readers, nil
}

// acquireLock keeps other users of the store out. It locks a separate file: SQLite loses its own
// locks on the main file when anything in the process closes that file.
func acquireLock(path string) (*flock.Flock, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600),
		flock.SetFlag(os.O_CREATE|os.O_RDONLY|private.OpenFlags))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the store: %w", pathError(path, err))
	}
	if !ok {
		lock.Close()
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	}
	return lock, nil
}

// prepareFile creates the file if it does not exist, with mode 0600 from the start, and checks
// that it can be a SQLite database.
func prepareFile(path string) error {
	for _, suffix := range fileSuffixes[1:] { // SQLite opens these on its own
		info, err := os.Lstat(path + suffix)
		if err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("opening the store: %w",
				&private.Error{Path: path + suffix, Problem: "is not a regular file", Fix: "remove it"})
		}
	}
	f, err := private.OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("opening the store: %w", pathError(path, err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("opening the store: others may read it, and: %w", err)
		}
	}
	if info.Size() == 0 {
		return nil // new
	}
	return checkMagic(path, f)
}

// checkMagic returns a *FileError unless the file starts like a SQLite database.
func checkMagic(path string, f io.Reader) error {
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	switch n, err := io.ReadFull(f, head); {
	case err == io.EOF:
		return &FileError{Path: path, Problem: "it is empty", Kind: Damaged}
	case string(head[:n]) != magic[:n] || err == io.ErrUnexpectedEOF:
		return &FileError{Path: path, Kind: Damaged,
			Problem: fmt.Sprintf("it is no SQLite database (its first bytes are %.16q)", head[:n])}
	case err != nil:
		return fmt.Errorf("opening the store: %w", err)
	}
	return nil
}

// dsn returns the data source name for a connection with our settings.
func dsn(path string, pragmas ...string) string {
	pragmas = append([]string{
		"busy_timeout(5000)", // someone may have opened the file with sqlite3
		"synchronous(full)",  // NORMAL in WAL mode loses the last commits in a power cut
		"trusted_schema(0)",
		"cell_size_check(1)",
		"wal_autocheckpoint(4000)", // pages; rarer than the default of 1000, since each checkpoint syncs twice
		"journal_size_limit(67108864)",
		"cache_size(-1536)", // KiB of each connection; the system caches the file, too
	}, pragmas...)
	return (&url.URL{Scheme: "file", Path: path}).String() + "?" + url.Values{"_pragma": pragmas}.Encode()
}

func newWriter(ctx context.Context, path string, db *sql.DB) (*writer, error) {
	// Check first that a write-ahead log is possible at all.
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = wal").Scan(&mode); err != nil {
		return nil, err
	}
	if mode != "wal" {
		return nil, fmt.Errorf("the file system of %s cannot hold a write-ahead log (journal mode is %q)", path, mode)
	}
	version, err := check(ctx, db, path)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, db, path, version, migrations); err != nil {
		return nil, err
	}
	c, err := newConn(ctx, db)
	if err != nil {
		return nil, err
	}
	w := newUnopenedWriter(path)
	w.db, w.conn = db, c
	if w.id, w.rev, err = readState(ctx, c); err == nil {
		w.epoch, err = c.meta("epoch")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	w.history = local.NewHistory(w.rev)
	return w, nil
}

// readState returns the ID and the revision of a store with the current schema.
func readState(ctx context.Context, db querier) (id string, rev store.Rev, err error) {
	err = db.QueryRowContext(ctx, `SELECT id, value FROM identity, meta WHERE name = 'rev'`).Scan(&id, &rev)
	return id, rev, err
}

// newUnopenedWriter returns a writer without a file.
func newUnopenedWriter(path string) *writer {
	return &writer{
		path: path, leases: local.NewLeases(), sequences: map[string]uint64{},
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// identify rejects databases of other programs and versions, and returns the version of the
// schema, 0 if the database is empty.
func identify(ctx context.Context, db *sql.DB, path string) (version int, err error) {
	var id, tables int
	if err := db.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`).Scan(&id, &version, &tables); err != nil {
		return 0, err
	}
	if id != applicationID && (id != 0 || tables > 0) {
		return 0, &FileError{Path: path, Kind: Foreign,
			Problem: fmt.Sprintf("it is a database of another program (application id %#x)", id)}
	}
	if version > len(migrations) {
		return 0, &FileError{Path: path, Kind: Newer,
			Problem: fmt.Sprintf("it was written by a newer version (schema %d, this one knows up to %d)", version,
				len(migrations))}
	}
	return version, nil
}

// check rejects files that identify rejects or that are corrupt, and returns the version of the
// schema.
func check(ctx context.Context, db *sql.DB, path string) (version int, err error) {
	if version, err = identify(ctx, db, path); err != nil {
		return 0, err
	}
	rows, err := db.QueryContext(ctx, "PRAGMA quick_check(5)")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var problems []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return 0, err
		}
		if line != "ok" {
			problems = append(problems, line)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	if len(problems) > 0 {
		return 0, &FileError{Path: path, Kind: Damaged,
			Problem: "the integrity check says: " + strings.Join(problems, "; ")}
	}
	return version, nil
}

// migrate brings the schema up to date from version, each step in a transaction.
func migrate(ctx context.Context, db *sql.DB, path string, version int, steps []string) error {
	if version < len(steps) {
		// The new schema should be in the main file, which may be opened without its log.
		// If the checkpoint fails, it stays in the log.
		defer db.ExecContext(ctx, "PRAGMA wal_checkpoint(FULL)")
	}
	for ; version < len(steps); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, steps[version]+
			fmt.Sprintf("; PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version+1))
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			tx.Rollback()
			return fmt.Errorf("migrating %s to schema %d: %w", path, version+1, err)
		}
	}
	return nil
}
