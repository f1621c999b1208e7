// Package endpoint finds and creates the unix sockets of daemons, and identifies the peers of
// connections.
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

// Dir is the directory of a project in which its daemon keeps its files.
const Dir = ".coppice"

// maxPath is the maximum length of the path of a socket, in bytes: 107 on Linux.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// Path returns the path of the socket on which the daemon of a project listens: daemon.sock in
// the directory .coppice of the project. If that is too long for a socket, the name is derived
// from a hash of the project's directory. The socket is then in $XDG_RUNTIME_DIR (/run/user/UID
// if that is not set), or else in a private directory below the directory for temporary files.
func Path(project string) (string, error) {
	dir, err := filepath.Abs(project)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // one project, whatever the path to it
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
		// Another user may have created it, to intercept requests.
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

// runtimeDir returns the directory for sockets of the user, or "" if there is none that is
// private.
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

// checkPrivate returns an error unless dir is a directory, not a link, that belongs to the user
// and is closed to others.
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
