// Package private opens directories and files that belong to this user alone. It does not
// follow symbolic links: a directory that other users can write to, or a checkout of an
// untrusted repository, can contain links to anywhere.
package private

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Error reports a path that is not safe to use.
type Error struct {
	Path    string
	Problem string
	Fix     string // what the user can do; "" if there is no general remedy
}

func (e *Error) Error() string {
	if e.Fix == "" {
		return e.Path + " " + e.Problem
	}
	return e.Path + " " + e.Problem + "; " + e.Fix
}

const isLink = "is a symbolic link, which coppice never makes"

// Dir checks that a directory belongs to this user and is not a symbolic link. It removes the
// permissions of other users. The error is an *Error unless a system call fails.
func Dir(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if err := checkDir(dir, &st); err != nil || st.Mode&0o077 == 0 {
		return err
	}
	f, err := OpenDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	// It may have been replaced since the first check.
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "fstat", Path: dir, Err: err}
	}
	if err := checkDir(dir, &st); err != nil {
		return err
	}
	return f.Chmod(0o700)
}

func checkDir(dir string, st *unix.Stat_t) error {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return &Error{dir, isLink, "remove it"}
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &Error{dir, "is not a directory", ""}
	case int(st.Uid) != os.Geteuid():
		return &Error{
			dir, fmt.Sprintf("belongs to user %d, not to user %d", st.Uid, os.Geteuid()),
			"remove it, or run coppice as its owner",
		}
	}
	return nil
}

// OpenDir opens a directory, but not through a symbolic link.
func OpenDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDONLY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// NoLinks returns an *Error if an entry of a directory is a symbolic link. The directory may be
// missing.
func NoLinks(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			return &Error{filepath.Join(dir, e.Name()), isLink, "remove it"}
		}
	}
	return nil
}

// OpenFlags are the flags that OpenFile adds: links are not followed, and named pipes do not
// block.
const OpenFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// OpenFile opens a regular file like os.OpenFile. It creates files with mode 0600. The error is
// an *Error if the file is not a regular file.
func OpenFile(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|OpenFlags, 0o600)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, &Error{name, isLink, "remove it"}
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		return nil, &Error{name, "is not a regular file", "remove it"}
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &Error{name, "is not a regular file", "remove it"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile reads a regular file of at most max bytes. A larger file is an error: its writer must
// not control how much memory is used.
func ReadFile(name string, max int64) ([]byte, error) {
	f, err := OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, max)
}

// ReadSecret is ReadFile for a file that must belong to this user, and that other users may not read or write.
func ReadSecret(name string, max int64) ([]byte, error) {
	f, err := OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "fstat", Path: name, Err: err}
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return nil, &Error{
			name, fmt.Sprintf("belongs to user %d, not to user %d", st.Uid, os.Geteuid()),
			"run coppice as its owner",
		}
	case st.Mode&0o077 != 0:
		return nil, &Error{
			name, fmt.Sprintf("has mode %04o, which lets other users use it", st.Mode&0o777), "run: chmod 600 " + name,
		}
	}
	return readAll(f, max)
}

// ReadLinked is ReadFile for a name that a person has given, which may be that of a symbolic link.
func ReadLinked(name string, max int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &Error{name, "is not a regular file", ""}
	}
	return readAll(f, max)
}

func readAll(f *os.File, max int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > max {
		return nil, &Error{f.Name(), fmt.Sprintf("is larger than %d bytes", max), ""}
	}
	return text, nil
}

// WriteFile writes a file like os.WriteFile, but opens it with OpenFile.
func WriteFile(name string, data []byte) error {
	f, err := OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Replace replaces a file, whole or not at all, by one with mode 0600. It does not sync it to the disk.
func Replace(name string, data []byte) error { return replace(name, data, false) }

// ReplaceSynced is Replace with a sync, so that a power cut cannot undo it.
func ReplaceSynced(name string, data []byte) error {
	if err := replace(name, data, true); err != nil {
		return err
	}
	d, err := OpenDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func replace(name string, data []byte, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
