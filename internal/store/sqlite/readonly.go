package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store/local"
	"github.com/coppice-dev/coppice/internal/store/sqlite/readonly"
)

// ErrMoved is returned if the files of a store that was opened for reading have changed. A daemon
// has opened it since, and what was read may mix old and new records.
var ErrMoved = errors.New("the store was changed while it was read, as a daemon has started; ask again")

// OpenReadOnly opens the store at path to read what its last user left, even if that process was
// killed and the write-ahead log still holds its last commits. It takes no lock and changes
// nothing, so it works on a read-only file system. The caller makes sure that the store is not
// open; a read fails with ErrMoved if it was opened since.
//
// Apply and Acquire fail with store.ErrReadOnly. The error is fs.ErrNotExist if there is no store
// or it is empty, and a *FileError as for Open.
func OpenReadOnly(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, leases: local.NewLeases(), damaged: make(map[string]bool)}
	for _, suffix := range fileSuffixes[:2] { // for a better error than the one of SQLite
		f, err := private.OpenFile(path+suffix, os.O_RDONLY)
		if err == nil {
			f.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("opening the store: %w", err)
		}
	}
	if s.fileState, err = statStore(path); err != nil {
		return nil, fmt.Errorf("opening the store: %w", pathError(path, err))
	}
	s.readers, s.unregister, err = readonly.Open(storeDir(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	if err := s.readFirst(ctx); err != nil {
		return nil, errors.Join(diagnose(path, "opening", err), s.Close())
	}
	return s, nil
}

// readFirst reads what every store has.
func (s *Store) readFirst(ctx context.Context) error {
	version, err := identify(ctx, s.readers, s.path)
	switch {
	case err != nil:
		return err
	case version == 0:
		return fmt.Errorf("%s holds nothing: %w", s.path, fs.ErrNotExist)
	case version < len(migrations):
		return fmt.Errorf("%s is of an older version (schema %d, this one reads %d); coppice up brings it up to date",
			s.path, version, len(migrations))
	}
	id, rev, err := readState(ctx, s.readers)
	if err != nil {
		return err
	}
	s.id, s.history = id, local.NewHistory(rev)
	return s.fileState.check(s.path)
}

// fileState is the state of the files of a store when it was opened for reading.
type fileState struct{ file, wal os.FileInfo }

func statStore(path string) (*fileState, error) {
	file, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	wal, err := os.Lstat(path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &fileState{file, wal}, nil
}

// check fails with ErrMoved if the files have changed. It is a no-op for a nil fileState, which
// belongs to a store that Open protects with a lock.
func (s *fileState) check(path string) error {
	if s == nil {
		return nil
	}
	now, err := statStore(path)
	if err == nil && sameContent(s.file, now.file) && sameContent(s.wal, now.wal) {
		return nil
	}
	return fmt.Errorf("reading %s: %w", path, ErrMoved)
}

func sameContent(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// storeDir is the directory of a store. Its files have to belong to this user alone.
type storeDir string

// Open implements fs.FS.
func (d storeDir) Open(name string) (fs.File, error) {
	f, err := private.OpenFile(filepath.Join(string(d), name), os.O_RDONLY)
	if err != nil {
		return nil, err // and not a nil file in an interface
	}
	return f, nil
}

// Stat implements fs.StatFS. SQLite uses it to check which files exist.
func (d storeDir) Stat(name string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(string(d), name))
}
