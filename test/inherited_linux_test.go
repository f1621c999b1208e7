package test

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A background daemon and its agents do not keep descriptors of the shell open, such as the lock of
// flock(1) or a pipe of a script.
func TestUpLeavesDescriptors(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("coppice", "up", "-d")
	cmd.Dir = f.dir
	cmd.ExtraFiles = []*os.File{nil, w} // 4; 3 is taken by the command itself
	out, err := cmd.CombinedOutput()
	w.Close()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.SetReadDeadline(time.Now().Add(waitTimeout))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("%d, %v, want the end of the pipe", n, err)
	}
}
