// Package endpoint finds and makes the unix sockets on which daemons listen, and tells who is at the
// other end.
package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir is the directory of a project in which its daemon keeps its things.
const Dir = ".coppice"

// maxPath is the longest path of a socket, in bytes: 107 on Linux.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// Path returns where the daemon of the project in a directory listens, and
// where its clients find it: daemon.sock in the directory .coppice of the
// project. Where that would be longer than a socket's path may be, it is
// named after a hash of the project's directory and lies in $XDG_RUNTIME_DIR
// (/run/user/UID if that is not set), or else in a directory of the user's
// own in the directory for temporary files.
func Path(project string) (string, error) {
	dir, err := filepath.Abs(project)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // however it was reached, it is one project
	}
	if err != nil {
		return "", fmt.Errorf("finding the socket of the project in %s: %w", project, err)
	}
	if path := filepath.Join(dir, Dir, "daemon.sock"); len(path) <= maxPath {
		return path, nil
	}
	base := runtimeDir()
	if base == "" {
		base = tempDir()
		// Somebody else may have made it first, to be asked instead of the daemon.
		if err := checkPrivate(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("finding the socket of the project in %s: %w", project, err)
		}
	}
	sum := sha256.Sum256([]byte(dir))
	path := filepath.Join(base, "coppice-"+hex.EncodeToString(sum[:12])+".sock")
	if len(path) > maxPath {
		return "", fmt.Errorf("the path of the socket %s has %d bytes, at most %d are possible; set "+
			"XDG_RUNTIME_DIR to a shorter directory", path, len(path), maxPath)
	}
	return path, nil
}

// runtimeDir is the directory for the user's sockets; "" if there is none, or
// one that is not the user's alone.
func runtimeDir() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = fmt.Sprintf("/run/user/%d", os.Geteuid())
	}
	if !filepath.IsAbs(dir) || checkPrivate(dir) != nil {
		return ""
	}
	return filepath.Clean(dir)
}

func tempDir() string { return filepath.Join(os.TempDir(), fmt.Sprintf("coppice-%d", os.Geteuid())) }

// checkPrivate returns an error unless a path is a directory, not a link to
// one, that is the user's and that no other user can use.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to somebody else", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %v); make it private with: chmod 700 %s", dir,
			info.Mode().Perm(), dir)
	}
	return nil
}
