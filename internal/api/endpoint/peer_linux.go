package endpoint

import (
	"cmp"
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenPrivate creates a socket that is never open to others, whatever the umask: Linux gives
// the file the mode of the socket that is bound to it.
func listenPrivate(path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		e := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return cmp.Or(e, err)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// Peer returns the user and the process of the peer as reported by the kernel. The process is 0
// if it is in a namespace that this one does not see.
func Peer(conn *net.UnixConn) (uid, pid int, err error) {
	var cred *unix.Ucred
	e := withFD(conn, func(fd int) { cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = cmp.Or(e, err); err != nil {
		return -1, 0, err
	}
	return int(cred.Uid), int(cred.Pid), nil
}

// Ended reports whether the process that opened a connection has ended, and its number may have
// been reused.
func Ended(conn *net.UnixConn, pid int) bool {
	var pidfd int
	var err error
	e := withFD(conn, func(fd int) { pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD) })
	switch {
	case e != nil:
		return true
	case errors.Is(err, unix.ENOPROTOOPT): // before Linux 6.5
		return unix.Kill(pid, 0) == unix.ESRCH
	case err != nil:
		return true
	}
	defer unix.Close(pidfd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

func withFD(conn *net.UnixConn, do func(fd int)) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { do(int(fd)) })
}
