package run

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A zombie counts as ended.
func TestExitCheckOfZombie(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	gone := exitCheck(cmd.Process.Pid)
	if gone() {
		t.Error("it runs, and is taken for gone")
	}
	in.Close()
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !gone() {
		t.Error("it has ended, and is waited for")
	}
}
