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
)

// files are those of a database, as they were when it was opened. SQLite does
// not notice that they were removed: it goes on writing into what nobody will find again.
type files map[string]os.FileInfo

var fileSuffixes = []string{"", "-wal", "-shm"}

// seen looks at the files. They are not opened: see diskState.
func seen(path string) (files, error) {
	f := files{}
	for _, suffix := range fileSuffixes {
		info, err := os.Lstat(path + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err // who cannot see cannot tell
		}
		if err == nil {
			f[suffix] = info
		}
	}
	return f, nil
}

// same reports whether what is there now are the files that were opened.
func (f files) same(now files) bool {
	for suffix, info := range f {
		if n := now[suffix]; n == nil || !os.SameFile(info, n) {
			return false
		}
	}
	return true
}

// Tend looks whether somebody has removed or replaced the files of the store
// while it is open. If so everything is written to new ones in their place;
// what was put there is kept as path.replaced-TIME. Call it every now and then:
// what was acknowledged since the removal is lost if the process dies before.
func (s *Store) Tend(ctx context.Context) (restored bool, err error) {
	s.swap.Lock() // no reads
	defer s.swap.Unlock()
	if s.closed.Load() {
		return false, nil
	}
	if err := s.tendLock(); err != nil {
		return false, err
	}
	s.writer.busy.Lock() // no writes
	defer s.writer.busy.Unlock()
	now, err := seen(s.path)
	if err != nil {
		return false, err
	}
	if s.writer.conn != nil {
		if s.own.same(now) {
			s.own = now // one that is only there since the first write, too
			return false, nil
		}
		if err := s.save(ctx, now); err != nil {
			return false, fmt.Errorf("the store %s was removed or replaced, and cannot be made anew: %w", s.path, err)
		}
	}
	if err := s.reopen(ctx); err != nil {
		return false, fmt.Errorf("the store %s was removed or replaced, and cannot be opened: %w", s.path, err)
	}
	return true, nil
}

// save writes all that is in the store into a new file in its place, and lets
// go of the old ones.
func (s *Store) save(ctx context.Context, now files) error {
	fresh := s.path + ".restoring"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if _, err := s.writer.conn.ExecContext(ctx, "VACUUM INTO ?", fresh); err != nil {
		os.Remove(fresh)
		return diagnose(s.path, "copying", err)
	}
	err := os.Chmod(fresh, 0o600)
	if err == nil {
		err = syncFile(fresh)
	}
	if err != nil {
		return err
	}
	// What is not ours must be out of the way before ours is closed: SQLite
	// removes its log by name.
	aside := s.path + ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	for suffix, info := range now {
		if own := s.own[suffix]; own == nil || !os.SameFile(own, info) {
			if err := os.Rename(s.path+suffix, aside+suffix); err != nil {
				return err
			}
		}
	}
	err = errors.Join(s.readers.Close(), s.writer.conn.close(), s.writer.db.Close())
	s.writer.conn = nil
	for _, suffix := range fileSuffixes[1:] {
		os.Remove(s.path + suffix)
	}
	if e := os.Rename(fresh, s.path); e != nil {
		return e
	}
	if err != nil { // of files that nobody needs any more
		return nil
	}
	return syncFile(filepath.Dir(s.path))
}

// reopen opens what save has written.
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
	s.readers = readers
	s.own, err = seen(s.path)
	return err
}

// tendLock takes the lock again if its file was removed.
func (s *Store) tendLock() error {
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

// syncFile waits until a file or directory is on the disk.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
