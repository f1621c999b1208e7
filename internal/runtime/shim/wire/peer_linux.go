package wire

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

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
	for i, id := range lineage.Processes {
		if i > 0 && IsShim(slots, id) {
			path := AgentOf(slots, id, proc.ReadMark(lineage.Processes[i-1].PID))
			return fmt.Errorf("the peer of the socket is process %d of the agent %.200q, which is restricted", cred.Pid,
				path)
		}
	}
	return nil
}

// SendFiles sends files with the bytes that announce them.
func SendFiles(c *net.UnixConn, b []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		rc, err := f.SyscallConn()
		if err != nil {
			return err
		}
		// Not f.Fd(): that would make the file blocking, for both ends of a socket pair.
		if err := rc.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return err
		}
	}
	n, _, err := c.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
	}
	runtime.KeepAlive(files)
	return err
}

// ShimIn returns the identity of a process and the directory of its slots, if it is a shim.
func ShimIn(pid int) (id proc.Identity, slots string, ok bool) {
	at := "/proc/" + strconv.Itoa(pid)
	dir, err := os.Readlink(at + "/cwd")
	if err != nil {
		return id, "", false
	}
	line, err := os.ReadFile(at + "/cmdline")
	if err != nil || !bytes.HasPrefix(line, []byte(ShimArgs)) {
		return id, "", false
	}
	id, err = proc.Identify(pid)
	return id, strings.TrimSuffix(dir, " (deleted)"), err == nil
}

// IsShim reports whether a process is a shim of the slots in a directory. Those of earlier versions
// have a slot as their working directory.
func IsShim(slots string, id proc.Identity) bool {
	found, dir, ok := ShimIn(id.PID)
	return ok && found == id && (dir == slots || filepath.Dir(dir) == slots)
}

// AgentOf returns the path of the agent of a shim whose processes have a mark, according to the
// states in the slots; empty if there is none.
func AgentOf(slots string, shim proc.Identity, mark proc.Mark) string {
	entries, err := os.ReadDir(slots)
	if err != nil || mark == 0 {
		return ""
	}
	for _, e := range entries {
		if Mark(e.Name()) != mark {
			continue
		}
		if st, err := ReadState(filepath.Join(slots, e.Name())); err == nil && st.Shim == shim {
			return st.Path
		}
	}
	return ""
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
