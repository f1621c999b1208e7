package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store"
)

// Backup writes a copy of the store at path to the file to, which must not exist. The copy is a
// single file that holds one revision; it appears complete or not at all. Another process may
// have the store open and write to it.
func Backup(ctx context.Context, path, to string) (rev store.Rev, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("writing the backup: %s exists", to)
	}
	id, reached, markErr := readMark(path)
	if err := checkPresent(path); err != nil {
		return 0, err
	}
	if _, err := os.Lstat(path); err != nil {
		return 0, fmt.Errorf("reading the store: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(to), ".coppice-backup-")
	if err != nil {
		return 0, fmt.Errorf("writing the backup: %w", err)
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "backup.db")
	if err := vacuumInto(ctx, path, fresh); err != nil {
		return 0, err
	}
	got, rev, err := verifyBackup(ctx, fresh)
	switch {
	case err != nil:
		return 0, fmt.Errorf("the copy cannot be read: %w", err)
	case markErr == nil && got != id:
		return 0, lost(path, "it is another store than the one that was here", reached)
	case markErr == nil && rev < reached:
		return 0, lost(path, "its last changes are gone", reached)
	}
	if err := errors.Join(os.Chmod(fresh, 0o600), syncFile(fresh)); err != nil {
		return 0, fmt.Errorf("writing the backup: %w", err)
	}
	err = os.Link(fresh, to)                                                       // fails if the file exists by now
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) { // a file system without links
		err = os.Rename(fresh, to)
	}
	if err != nil {
		return 0, fmt.Errorf("writing the backup: %w", err)
	}
	return rev, syncFile(filepath.Dir(to))
}

// vacuumInto copies a database through a connection of its own.
func vacuumInto(ctx context.Context, path, to string) error {
	db, err := sql.Open("sqlite", dsn(path)+"&mode=rw")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := check(ctx, db, path); err != nil {
		return diagnose(path, "reading", err)
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return diagnose(path, "copying", err)
	}
	return nil
}

// verifyBackup checks a whole backup, and returns the ID and the revision of its store. It does
// not change the file.
func verifyBackup(ctx context.Context, path string) (id string, rev store.Rev, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	if err := checkMagic(path, f); err != nil {
		return "", 0, err
	}
	db, err := openImmutable(path)
	if err != nil {
		return "", 0, err
	}
	defer db.Close()
	defer func() {
		if err != nil {
			err = diagnose(path, "reading", err)
		}
	}()
	version, err := check(ctx, db, path)
	switch {
	case err != nil:
		return "", 0, err
	case version == 0:
		return "", 0, &FileError{Path: path, Kind: Foreign, Problem: "it is an empty database, not a store"}
	case version < len(migrations): // without an id and checksums
		err := db.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'rev'`).Scan(&rev)
		return "", rev, err
	}
	if id, rev, err = readState(ctx, db); err != nil {
		return "", 0, err
	}
	return id, rev, verify(ctx, db, path)
}

// Restored describes a completed Restore.
type Restored struct {
	Records int
	Rev     store.Rev // of the backup
	Aside   string    // the new path of the old file; "" if there was none
}

// Restore replaces the store at path, which must not be open, by a backup. It checks and copies
// the backup before it touches the old file, which is kept as path.replaced-TIME. Revisions
// continue after those of both, and the store gets a new ID.
func Restore(ctx context.Context, path, from string) (r Restored, err error) {
	lock, err := acquireLock(path)
	if err != nil {
		return r, err
	}
	defer lock.Close()
	work, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".restore-")
	if err != nil {
		return r, fmt.Errorf("restoring the store: %w", pathError(path, err))
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "fresh")
	if info, err := os.Stat(from); err != nil {
		return r, fmt.Errorf("reading the backup: %w", err)
	} else if !info.Mode().IsRegular() {
		return r, fmt.Errorf("reading the backup: %w", &private.Error{Path: from, Problem: "is not a regular file"})
	}
	if err := copyFile(from, fresh); err != nil {
		return r, fmt.Errorf("copying the backup: %w", err)
	}
	// Check the copy: nothing else can change it.
	if _, r.Rev, err = verifyBackup(ctx, fresh); err != nil {
		return r, notBackup(from, err)
	}
	if r.Records, err = renew(ctx, path, fresh); err != nil {
		return r, fmt.Errorf("restoring the store (it is as it was): %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		r.Aside = asidePath(path, "replaced")
	}
	if err := replace(path, fresh, r.Aside); err != nil {
		return r, fmt.Errorf("restoring the store: %w", err)
	}
	return r, nil
}

// notBackup returns the error for a file that cannot be restored, without the advice that is
// meant for a store.
func notBackup(from string, err error) error {
	var bad *FileError
	if errors.As(err, &bad) {
		return fmt.Errorf("%s cannot be restored: %s", from, bad.Problem)
	}
	return fmt.Errorf("reading the backup %s: %w", from, err)
}

// renew turns a copy into the new store: with the current schema, a new ID, and revisions after
// those of the store that it replaces.
func renew(ctx context.Context, path, fresh string) (records int, err error) {
	_, reached, _ := readMark(path)
	s, err := open(ctx, fresh)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c := s.writer.conn
	if err := errors.Join(c.advanceCounters(ctx, reached), c.exec(newIdentity)); err != nil {
		return 0, err
	}
	if err := c.QueryRowContext(ctx, `SELECT id FROM identity`).Scan(&s.writer.id); err != nil {
		return 0, err
	}
	s.writer.mark.id = s.writer.id
	if err := s.writer.reload(); err != nil {
		return 0, err
	}
	return records, c.QueryRowContext(ctx, `SELECT count(*) FROM record`).Scan(&records)
}

const newIdentity = `UPDATE identity SET id = lower(hex(randomblob(8)))`
