package proc

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// SetLimits limits this process and each process that it starts: the bytes of address space, the
// open files, and the processes of the user. Zero means no limit.
func SetLimits(memory int64, openFiles, processes uint64) error {
	for _, r := range []struct {
		name     string
		resource int
		value    uint64
	}{
		// Memory comes last: this program needs some to get to its execve.
		{"open files", unix.RLIMIT_NOFILE, openFiles},
		{"processes", unix.RLIMIT_NPROC, processes},
		{"memory", unix.RLIMIT_AS, uint64(max(0, memory))},
	} {
		if r.value == 0 {
			continue
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(r.resource, &now); err == nil {
			r.value = min(r.value, now.Max)
		}
		// Not unix.Setrlimit: after that, syscall.Exec would restore the original limit of open files.
		if err := syscall.Setrlimit(r.resource, &syscall.Rlimit{Cur: r.value, Max: r.value}); err != nil {
			return fmt.Errorf("limiting %s to %d: %w", r.name, r.value, err)
		}
	}
	return nil
}
