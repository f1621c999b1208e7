package proc

import (
	"os"
	"strconv"
	"syscall"
)

// SealInherited marks the descriptors that this process was started with as close-on-exec,
// except the standard ones. Otherwise a lock, pipe or file of the caller's shell would stay open
// as long as the daemon and its agents run, and an agent of another user could use it. Without
// /dev/fd it does nothing.
func SealInherited() {
	names, _ := os.ReadDir("/dev/fd")
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
