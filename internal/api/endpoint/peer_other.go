//go:build !linux

package endpoint

import (
	"cmp"
	"net"

	"golang.org/x/sys/unix"
)

// listenPrivate creates a socket. Listen sets its mode; until then Peer keeps others out.
func listenPrivate(path string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// Peer returns the user of the peer as reported by the kernel. The process is unknown.
func Peer(conn *net.UnixConn) (uid, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, 0, err
	}
	var cred *unix.Xucred
	e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err = cmp.Or(e, err); err != nil {
		return -1, 0, err
	}
	return int(cred.Uid), 0, nil
}

// Ended is known only on Linux.
func Ended(*net.UnixConn, int) bool { return false }
