package wire

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// CheckPeer refuses a peer that belongs neither to this user nor to root.
func CheckPeer(c *net.UnixConn) error {
	_, err := peer(c)
	return err
}

// CheckClient also refuses a client of a shim that is a process of a restricted agent of one of
// the slots in a directory, or has ended: the shim could start an unrestricted process for it.
func CheckClient(c *net.UnixConn, slots string) error {
	cred, err := peer(c)
	if err != nil || cred.Pid == 0 { // from outside of the namespace of this process
		return err
	}
	if restricted, err := proc.HasNoNewPrivileges(int(cred.Pid)); err != nil || !restricted {
		return err
	}
	lineage, err := proc.LineageOf(int(cred.Pid))
	if err != nil {
		return err
	}
	for _, id := range lineage.Processes {
		if path := ShimAt(slots, id); path != "" {
			return fmt.Errorf("the peer of the socket is process %d of the agent %.200q, which is restricted", cred.Pid,
				path)
		}
	}
	return nil
}

// ShimAt returns the path of the agent whose shim a process is, according to the state file of a
// slot in a directory; empty if it is none.
func ShimAt(slots string, id proc.Identity) string {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(id.PID) + "/cwd")
	if err != nil || filepath.Dir(dir) != slots {
		return ""
	}
	st, err := ReadState(dir)
	if err != nil || st.Shim != id {
		return ""
	}
	return st.Path
}

// peer returns the process at the other end, which must belong to this user or to root.
func peer(c *net.UnixConn) (*unix.Ucred, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var serr error
	err = rc.Control(func(fd uintptr) {
		cred, serr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = serr
	}
	if err != nil {
		return nil, fmt.Errorf("identifying the peer of a socket: %w", err)
	}
	if int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return nil, fmt.Errorf("the peer of the socket is process %d of user %d, not of user %d", cred.Pid, cred.Uid,
			os.Geteuid())
	}
	return cred, nil
}
