package pane

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWith makes this process, also as the agent, die with the tmux server. Without the server
// the agent has no terminal, and its end is not noticed.
func dieWith(server int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != server { // the server died before that
		return errors.New("the tmux server has ended")
	}
	return nil
}
