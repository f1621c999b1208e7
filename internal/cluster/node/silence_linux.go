package node

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence has the kernel give up a connection whose data is not acknowledged in time.
func limitSilence(_, _ string, raw syscall.RawConn) error {
	var err error
	if e := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silentTimeout.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
