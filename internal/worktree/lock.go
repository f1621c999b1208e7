package worktree

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/private"
)

// Each attempt has two lock files. A process holds the lock while it makes or removes the worktree. The
// processes that use the worktree share the lease, which keeps it from being removed; they take the lease
// while they hold the lock. The kernel releases the locks of a dead process.

// fileLock is a lock that this process holds.
type fileLock struct{ file *os.File }

// release gives up the lock. A command that was given the file no longer holds it.
func (l *fileLock) release() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}

// tryLock locks a file, which it creates. It returns nil if another process, or another fileLock,
// has a lock that excludes this one. how is unix.LOCK_SH or unix.LOCK_EX.
func tryLock(path string, how int) (*fileLock, error) {
	for {
		file, err := private.OpenFile(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		}
		if err != nil {
			file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, nil
			}
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		own, err := file.Stat()
		if now, e := os.Lstat(path); err == nil && e == nil && os.SameFile(own, now) {
			return &fileLock{file}, nil
		}
		file.Close() // its holder has removed it meanwhile
	}
}

// waitLock locks a file like tryLock, but waits for the lock until ctx is done.
func waitLock(ctx context.Context, path string, how int) (*fileLock, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		l, err := tryLock(path, how)
		if l != nil || err != nil {
			return l, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}
