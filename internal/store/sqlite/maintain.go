package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// files holds the state of the files of a database, keyed by suffix, as of when it was opened.
// SQLite does not notice that its files were removed: it continues to write to files without a
// name.
type files map[string]os.FileInfo

var fileSuffixes = []string{"", "-wal", "-shm"}

// statFiles returns the current state of the files. It does not open them; see diskState.
func statFiles(path string) (files, error) {
	f := files{}
	for _, suffix := range fileSuffixes {
		info, err := os.Lstat(path + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err // their state is unknown
		}
		if err == nil {
			f[suffix] = info
		}
	}
	return f, nil
}

// maxLog is the size to which SQLite may truncate its log.
const maxLog = 64 << 20

// same reports whether now describes the files that were opened, none of them truncated. SQLite
// itself never shrinks the main file.
func (f files) same(now files) bool {
	for suffix, info := range f {
		n := now[suffix]
		if n == nil || !os.SameFile(info, n) {
			return false
		}
		if suffix == "" && n.Size() < info.Size() || suffix == "-wal" && n.Size() < min(info.Size(), maxLog) {
			return false
		}
	}
	return true
}

// intact reports whether the files are the ones that were opened. Needs writer.busy.
func (s *Store) intact(now files) bool {
	return s.own.same(now) && (!s.writer.behind || now["-wal"] != nil && now["-wal"].Size() > 0)
}

// Maintain checks the files of the open store; call it regularly. It checkpoints the log, so that
// the main file alone is nearly complete.
//
// If the files were removed, replaced or truncated, it writes the whole store to new files in
// their place and returns true for restored. Files that were found there instead are kept as
// path.replaced-TIME. The same happens before a write. If not all records could be saved, err
// describes the loss.
func (s *Store) Maintain(ctx context.Context) (restored bool, err error) {
	s.swap.Lock() // no reads
	err = s.maintain(ctx)
	restored = s.restored
	err = errors.Join(s.loss, err)
	s.restored, s.loss = false, nil
	s.swap.Unlock()
	if err == nil {
		err = s.checkpoint(ctx)
	}
	return restored, err
}

// ensureFiles checks before a write, and after a failed read, that the files are still there, and
// reports whether they had to be written again. If they cannot be written, the store continues
// with what it has open, and a later call tries again.
func (s *Store) ensureFiles() (restored bool) {
	s.writer.busy.Lock()
	now, err := statFiles(s.path)
	intact := err != nil || s.writer.conn == nil || s.intact(now)
	s.writer.busy.Unlock()
	if intact {
		return false
	}
	s.swap.Lock()
	defer s.swap.Unlock()
	if time.Now().Before(s.retry) {
		return false
	}
	if s.maintain(context.Background()) != nil {
		s.retry = time.Now().Add(checkRetry)
		return false
	}
	return true
}

// checkRetry is the pause after a failed attempt to write the files again.
const checkRetry = 2 * time.Second

// maintain replaces the files if they are not the ones that were opened. Needs swap.
func (s *Store) maintain(ctx context.Context) error {
	if s.closed.Load() {
		return nil
	}
	if err := s.restoreLock(); err != nil {
		return err
	}
	s.writer.busy.Lock() // no writes
	defer s.writer.busy.Unlock()
	now, err := statFiles(s.path)
	if err != nil {
		return err
	}
	if s.writer.refused != nil {
		if err := s.finishOpening(ctx); !store.Refused(err) {
			return err
		}
		return nil
	}
	if s.writer.conn != nil {
		if s.intact(now) {
			s.own = now // includes a log that only the first write created
			if !s.writer.mark.present() {
				s.writer.mark.close()
				s.writer.mark, err = openMark(s.path, s.writer.id, s.writer.rev)
			}
			return err
		}
		if err := s.save(ctx, now); err != nil {
			return fmt.Errorf("the store %s was removed, replaced or cut, and cannot be written again: %w", s.path, err)
		}
	}
	if err := s.reopen(ctx); err != nil {
		return fmt.Errorf("the store %s was removed, replaced or cut, and cannot be opened: %w", s.path, err)
	}
	s.restored = true
	return nil
}

// checkpoint copies the log into the main file if it has anything new.
func (s *Store) checkpoint(ctx context.Context) error {
	s.writer.busy.Lock()
	defer s.writer.busy.Unlock()
	if s.writer.conn == nil || !s.writer.behind {
		return nil
	}
	var busy, log, done int
	if err := s.writer.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &log,
		&done); err != nil {
		if err = diagnose(s.path, "folding the log into", err); store.Refused(err) || ctx.Err() != nil {
			return nil // it stays in the log
		}
		return err
	}
	s.writer.behind = busy != 0 || done < log // a reader still needs the rest
	now, err := statFiles(s.path)
	if err == nil && s.intact(now) {
		s.own = now
	}
	return err
}

// save writes the whole store to a new file in its place, and closes the old ones. Records that
// can no longer be read are reported in s.loss.
func (s *Store) save(ctx context.Context, now files) error {
	fresh := s.path + ".restoring"
	for _, suffix := range append(fileSuffixes, markSuffix, ".lock") {
		if err := os.Remove(fresh + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	loss, err := s.copyTo(ctx, fresh)
	if err != nil {
		os.Remove(fresh)
		return err
	}
	// Move foreign files away before closing our own: SQLite removes its log by name.
	aside := asidePath(s.path, "replaced")
	for suffix, info := range now {
		if own := s.own[suffix]; loss != nil || own == nil || !os.SameFile(own, info) {
			if err := os.Rename(s.path+suffix, aside+suffix); err != nil {
				return err
			}
		}
	}
	// Errors do not matter: the old files are of no use.
	errors.Join(s.readers.Close(), s.writer.conn.close(), s.writer.db.Close())
	s.writer.conn = nil
	s.writer.mark.close()
	for _, suffix := range fileSuffixes[1:] {
		os.Remove(s.path + suffix)
	}
	s.loss = loss
	return install(fresh, s.path)
}

// copyTo writes everything that can be read through the open connection to a new file. SQLite has
// much of it in memory, even if the file was truncated. loss is not nil if records were lost.
func (s *Store) copyTo(ctx context.Context, fresh string) (loss, err error) {
	if _, err = s.writer.conn.ExecContext(ctx, "VACUUM INTO ?", fresh); err == nil {
		err = errors.Join(os.Chmod(fresh, 0o600), syncFile(fresh))
	}
	if err == nil {
		err = checkCopy(ctx, fresh, s.writer.rev)
	}
	if err == nil {
		return nil, nil
	}
	var bad *FileError
	if err = diagnose(s.path, "copying", err); !errors.As(err, &bad) {
		return nil, err
	}
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	to, err := open(ctx, fresh)
	if err != nil {
		return nil, err
	}
	n, lost, err := rescue(ctx, s.writer.conn, to.writer.conn, s.writer.rev)
	if err = errors.Join(err, to.writer.reload(), to.Close()); err != nil {
		return nil, err
	}
	return fmt.Errorf("the store %s was cut, and part of it is lost: %d records could be saved (%w)", s.path, n,
		lost), nil
}

// checkCopy verifies a copy, and writes its mark.
func checkCopy(ctx context.Context, path string, rev store.Rev) error {
	s, err := open(ctx, path)
	if err != nil {
		return err
	}
	if s.writer.rev != rev {
		err = &FileError{Path: path, Kind: Damaged,
			Problem: fmt.Sprintf("it is at revision %d, not %d", s.writer.rev, rev)}
	}
	if err == nil {
		err = s.Verify(ctx)
	}
	return errors.Join(err, s.Close())
}

// reopen opens the file that save has written.
func (s *Store) reopen(ctx context.Context) error {
	db, err := sql.Open("sqlite", dsn(s.path, "foreign_keys(0)"))
	if err != nil {
		return err
	}
	w, err := newWriter(ctx, s.path, db)
	if err != nil {
		return errors.Join(diagnose(s.path, "opening", err), db.Close())
	}
	readers, err := openReaders(ctx, s.path)
	if err != nil {
		return errors.Join(err, w.conn.close(), db.Close())
	}
	s.writer.db, s.writer.conn, s.writer.stale = db, w.conn, true
	s.writer.id, s.writer.behind, s.readers = w.id, false, readers
	return s.recordFiles()
}

// restoreLock takes the lock again if its file was removed.
func (s *Store) restoreLock() error {
	if s.lock == nil {
		return nil
	}
	own, err := s.lock.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(s.path + ".lock")
	if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(own, now) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	lock, err := acquireLock(s.path)
	if err != nil {
		return err
	}
	old := s.lock
	s.lock = lock
	return old.Close()
}

// syncFile flushes a file or directory to disk.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
