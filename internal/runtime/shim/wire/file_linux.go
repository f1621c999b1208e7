package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/private"
)

// TryLock locks a slot; it returns nil if another process has the lock. The lock belongs to an
// open file description. So it can be passed to a shim with the descriptor, without being free
// for a moment, and ends with the last process that has it. Unlike flock it can be tested
// without taking it.
func TryLock(dir string) (*os.File, error) {
	file := filepath.Join(dir, LockFile)
	for range 100 {
		f, err := private.OpenFile(file, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		err = lockCall(f, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
		if err != nil {
			f.Close()
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
				return nil, nil
			}
			return nil, fmt.Errorf("locking %s: %w", file, err)
		}
		if SameFile(f, file) {
			return f, nil
		}
		f.Close() // the slot was removed before it was locked; the next process finds another file
	}
	return nil, fmt.Errorf("locking %s: the file is replaced repeatedly", file)
}

// Locked reports whether a process holds the lock of a slot.
func Locked(dir string) (bool, error) {
	f, err := private.OpenFile(filepath.Join(dir, LockFile), os.O_RDONLY)
	if err != nil {
		if IsMissing(err) {
			return false, nil
		}
		return false, err
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart}
	if err := lockCall(f, unix.F_OFD_GETLK, &l); err != nil {
		return false, fmt.Errorf("checking the lock of %s: %w", dir, err)
	}
	return l.Type != unix.F_UNLCK, nil
}

func lockCall(f *os.File, cmd int, l *unix.Flock_t) error {
	for {
		err := unix.FcntlFlock(f.Fd(), cmd, l)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// exchange swaps two existing files, if the file system supports that.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
