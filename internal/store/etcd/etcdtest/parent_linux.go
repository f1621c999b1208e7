package etcdtest

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has a server end with the test, also if that is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped waits until all threads of a child have stopped.
func awaitStopped(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
