package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// guestDir holds the sockets for agents that run as other users, which cannot access the
// directory of the project. Only root has such agents.
const guestDir = "/run/coppice"

// GuestPath returns the path of the socket for agents that run as another user, given the path of
// the socket of the daemon.
func GuestPath(socket string, uid uint32) string {
	sum := sha256.Sum256([]byte(socket))
	return filepath.Join(guestDir, hex.EncodeToString(sum[:12]), strconv.FormatUint(uint64(uid), 10)+".sock")
}

// Admit creates the socket for agents of another user, unless it exists, and returns its path. No
// other user can connect to it. A client on it is always an agent, never a person.
func (l *Listener) Admit(uid uint32) (string, error) {
	path := GuestPath(l.path, uid)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case uid == 0:
		return "", errors.New("root is no guest")
	case l.guests == nil:
		return "", net.ErrClosed
	case l.guests[uid] != nil:
		return path, nil
	}
	guest := &Listener{
		path: path, guest: uid, logger: l.logger, conns: l.conns, closed: make(chan struct{}),
		restored: make(chan struct{}, 1),
	}
	if err := guest.start(checkInterval); err != nil {
		return "", err
	}
	l.guests[uid] = guest
	return path, nil
}

// closeGuests closes the sockets for other users.
func (l *Listener) closeGuests() {
	l.mu.Lock()
	all := l.guests
	l.guests = nil
	l.mu.Unlock()
	for _, guest := range all {
		guest.Close()
		os.Remove(filepath.Dir(guest.path)) // if it was the last one
	}
}

// trusts reports whether a user may connect.
func (l *Listener) trusts(uid int) bool {
	if l.guest != 0 {
		return uid == int(l.guest)
	}
	return Trusted(uid)
}

// makeGuestDir creates a directory below guestDir that others can search and only this user can
// change.
func makeGuestDir(dir string) error {
	for _, d := range []string{guestDir, dir} {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := os.Lstat(d)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory; remove it", d)
		case !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0:
			return fmt.Errorf("%s can be changed by other users (mode %v); remove it", d, info.Mode().Perm())
		case info.Mode().Perm() != 0o755: // because of a umask
			if err := os.Chmod(d, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}
