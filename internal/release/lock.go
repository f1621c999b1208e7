package release

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/private"
)

// There are two kinds of locks. The lock of a branch is held during a merge into it, so that one merge is
// checked at a time. The lock of a worktree is held while its files and index change, also by the git
// commands that change them; only the holder looks at what a killed process has left. A process takes the
// lock of a branch before that of a worktree. The files are never removed. The kernel releases the locks
// of a dead process.

// tryLock locks a file, which it creates. It returns nil if the file is locked. Closing the file unlocks it,
// when no command has it open.
func tryLock(path string) (*os.File, error) {
	file, err := private.OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, &os.PathError{Op: "flock", Path: path, Err: err}
}

// waitLock locks a file like tryLock, but waits for the lock until ctx is done.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		file, err := tryLock(path)
		if file != nil || err != nil {
			return file, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}
