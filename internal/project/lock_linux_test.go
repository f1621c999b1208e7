package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKilledHolder checks that a killed daemon does not hold the lock once the signal is sent.
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

// TestLockedWithoutFile checks that a daemon keeps the project if its lock file is removed.
func TestLockedWithoutFile(t *testing.T) {
	p := Project{Dir: t.TempDir()}
	p.State = filepath.Join(p.Dir, ".coppice")
	if _, locked := p.Locked(); locked {
		t.Error("it was not locked, and is")
	}
	lock, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"locked", "without its file"} {
		if h, locked := p.Locked(); !locked || h.PID != os.Getpid() {
			t.Errorf("%s: %+v, %v", what, h, locked)
		}
		if err := os.RemoveAll(p.State); err != nil {
			t.Fatal(err)
		}
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if h, locked := p.Locked(); locked {
		t.Errorf("it was released, and is locked by %+v", h)
	}
}
