package wire

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// WakeSignal tells a shim to look whether its files are still there. It is one
// that does nothing to a program which does not wait for it: a shim that is
// just being started does not yet.
const WakeSignal = unix.SIGWINCH

// MakeDir makes the directory of a slot, which must be nobody else's.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	if err := Private(dir); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	return nil
}

// Private makes sure that a directory belongs to this user and nobody else
// can enter it.
func Private(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, not to user %d", dir, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// OpenDir opens a directory to reach what is in it.
func OpenDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDONLY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}
