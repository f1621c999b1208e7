package sqlite

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/store"
)

// diskState returns store.ErrReadOnly or store.ErrFull if the disk is the reason why a store
// cannot be written, or nil. It opens no file: closing any file of a database makes SQLite lose
// its locks.
func diskState(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return nil
	}
	switch {
	case st.Flags&unix.ST_RDONLY != 0, denied(path), denied(path + "-wal"):
		return store.ErrReadOnly
	case st.Bavail == 0:
		return store.ErrFull
	}
	return nil
}

// denied reports whether the file exists and may not be written.
func denied(file string) bool {
	err := unix.Access(file, unix.W_OK)
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}
