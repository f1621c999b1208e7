package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// claimName takes a name that is the project's alone on this machine. Unlike
// the lock it is no file, so that it holds while somebody removes the state
// directory under a daemon. It belongs to the directory itself, whatever that
// is called. If another process has it, that is returned.
func claimName(dir string) (release func() error, holder int, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, 0, err
	}
	st := info.Sys().(*syscall.Stat_t)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d", st.Dev, st.Ino))
	address := &net.UnixAddr{Net: "unix", Name: "@coppice-" + hex.EncodeToString(sum[:16])}
	l, err := net.ListenUnix("unix", address)
	if err == nil {
		return l.Close, 0, nil
	}
	c, dialErr := net.DialUnix("unix", nil, address)
	if dialErr != nil {
		return nil, 0, fmt.Errorf("taking the name of the project: %w", err) // it was there, and is gone
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, 0, err
	}
	if credErr != nil {
		return nil, 0, credErr
	}
	if int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		// Anybody may take any name. That must not keep us from working.
		return func() error { return nil }, 0, nil
	}
	return nil, int(cred.Pid), nil
}
