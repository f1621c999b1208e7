package daemon

import (
	"os"
	"os/exec"
	"testing"
)

// TestKilledHolder: a controller that was killed is no reason to refuse, from
// the moment that the signal was sent.
func TestKilledHolder(t *testing.T) {
	for range 200 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		h := Holder{PID: cmd.Process.Pid}
		if !h.alive() {
			t.Error("it lives")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if h.alive() {
			t.Fatal("it is killed, and taken for alive")
		}
		cmd.Wait()
		if h.alive() {
			t.Error("it has ended, and is taken for alive")
		}
	}
	if !(Holder{PID: os.Getpid()}).alive() {
		t.Error("this process lives")
	}
}
