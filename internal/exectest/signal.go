package exectest

import (
	"fmt"
	"syscall"
	"testing"
)

// Signal sends a signal to a process, or to the process group -pid. An agent that does not run
// has the PID 0, which kill(2) takes for the group of the caller: a SIGKILL to it would end the
// whole test run. So these PIDs fail the test.
func Signal(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := signal(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func signal(pid int, sig syscall.Signal) error {
	if -1 <= pid && pid <= 1 {
		return fmt.Errorf("no process has the PID %d: it was to be sent %v", pid, sig)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("sending %v to %d: %w", sig, pid, err)
	}
	return nil
}
