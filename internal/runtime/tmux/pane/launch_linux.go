package pane

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWith ties the life of this process, also as the agent, to that of the
// tmux server: without it the agent has no terminal and its end is not observed.
func dieWith(server int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != server { // it has died before that
		return errors.New("the tmux server has ended")
	}
	return nil
}
