package exectest

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestSignal(t *testing.T) {
	for _, pid := range []int{-1, 0, 1} {
		if err := signal(pid, 0); err == nil {
			t.Errorf("%d was sent a signal", pid)
		}
	}
	for _, sign := range []int{1, -1} {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		Signal(t, sign*cmd.Process.Pid, syscall.SIGKILL)
		if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Errorf("%v", err)
		}
	}
}
