// Package filelock locks files with flock(2). The kernel releases the locks of a dead process. A command that has the
// file of a lock open holds it as well, so what a killed process has started can keep the lock until it has ended.
package filelock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/private"
)

// Mode says which other locks a lock excludes.
type Mode int

// Modes of locks.
const (
	Shared    Mode = unix.LOCK_SH // exclusive ones
	Exclusive Mode = unix.LOCK_EX // all
)

// Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// Try locks a file, which it creates. It returns nil if another process, or another Lock, has a lock that excludes this
// one. A file that was removed meanwhile is created again.
func Try(path string, m Mode) (*Lock, error) {
	for {
		file, err := private.OpenFile(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), int(m)|unix.LOCK_NB)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(int(file.Fd()), int(m)|unix.LOCK_NB)
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
			return &Lock{file}, nil
		}
		file.Close() // its holder has removed it meanwhile
	}
}

// Wait locks a file like Try, but waits for the lock until ctx is done.
func Wait(ctx context.Context, path string, m Mode) (*Lock, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		l, err := Try(path, m)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// File returns the file, for a command that keeps the lock if this process is killed.
func (l *Lock) File() *os.File { return l.file }

// Release gives up the lock, also for the commands that have its file open.
func (l *Lock) Release() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}

// Close gives up the lock when no command has its file open.
func (l *Lock) Close() error { return l.file.Close() }
