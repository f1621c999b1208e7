package proc

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OutlastedShell returns the command of a shell (/bin/sh -c TEXT) that dies of the stop signal
// only after its foreground command has ended, and runs nothing after that. On a terminal the
// shell leads the session. When it dies, the kernel sends SIGHUP to the foreground process group
// (POSIX, _exit), which may still be saving its work.
//
// A shell runs a trap when its foreground command has ended. It resets traps in its children and
// before exec. A text with its own trap is not changed, and neither is any other command.
func OutlastedShell(argv []string, stop syscall.Signal) []string {
	switch stop {
	case syscall.SIGKILL, syscall.SIGWINCH: // cannot be trapped, or does not end a shell
		return argv
	}
	if len(argv) != 3 || argv[0] != "/bin/sh" || argv[1] != "-c" || strings.Contains(argv[2], "trap") {
		return argv
	}
	name := strings.TrimPrefix(unix.SignalName(stop), "SIG")
	argv = slices.Clone(argv)
	argv[2] = fmt.Sprintf("trap 'trap - %[1]s; kill -s %[1]s $$' %[1]s; %[2]s", name, argv[2]) // on the same line
	return argv
}
