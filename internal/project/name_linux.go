package project

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// claimName claims the name of the project on this machine: an abstract unix socket, see unix(7).
// Unlike the lock it is not a file, so it survives the removal of the state directory. It identifies
// the directory independently of the path. If another process has the name, claimName returns it.
func claimName(dir string) (release func() error, holder int, err error) {
	address, err := nameOf(dir)
	if err != nil {
		return nil, 0, err
	}
	var c *net.UnixConn
	for tries := 0; c == nil; tries++ {
		l, err := net.ListenUnix("unix", address)
		if err == nil {
			return l.Close, 0, nil
		}
		if c, _ = net.DialUnix("unix", nil, address); c != nil {
			break
		}
		if tries == 100 {
			return nil, 0, fmt.Errorf("taking the name of the project: %w", err)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // its holder has just ended
	}
	defer c.Close()
	pid, err := trustedPeer(c)
	if err == nil && pid == 0 {
		// Any user can claim any name, which must not keep the daemon from working.
		return func() error { return nil }, 0, nil
	}
	return nil, pid, err
}

// nameHolder returns the process that has claimed the name of a project; 0 if none has.
func nameHolder(dir string) (pid int) {
	address, err := nameOf(dir)
	if err != nil {
		return 0
	}
	c, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return 0
	}
	defer c.Close()
	pid, _ = trustedPeer(c)
	return pid
}

// nameOf returns the name of the project in a directory.
func nameOf(dir string) (*net.UnixAddr, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d", st.Dev, st.Ino))
	return &net.UnixAddr{Net: "unix", Name: "@coppice-" + hex.EncodeToString(sum[:16])}, nil
}

// trustedPeer returns the process at the other end if it belongs to root or to this user; else 0.
func trustedPeer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return 0, errors.Join(err, credErr)
	}
	if int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return 0, nil
	}
	return int(cred.Pid), nil
}
