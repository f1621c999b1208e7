package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// threadsThat counts the threads of this program that cannot gain privileges.
func threadsThat(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		status, err := os.ReadFile(f)
		if err == nil && bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")) {
			n++
		}
	}
	return n
}

// Only the thread that started a process is marked, and it ends with the process.
func TestNoNewPrivilegesOfAThread(t *testing.T) {
	cmd := sh("grep NoNewPrivs /proc/self/status; exec sleep 1000")
	cmd.NoNewPrivileges = true
	out := newLines()
	p, err := Start(cmd, Output{Line: out.add})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "NoNewPrivs:\t1")
	if n := threadsThat(t); n != 1 {
		t.Errorf("%d threads of this program are marked, expected 1", n)
	}
	p.Kill()
	wait(t, "the exit", p.Done())
	deadline := time.Now().Add(testTimeout)
	for threadsThat(t) > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if n := threadsThat(t); n != 0 {
		t.Errorf("%d threads of this program are still marked", n)
	}
	cmd.Argv = []string{"/does/not/exist"}
	if _, err := Start(cmd, Output{}); err == nil {
		t.Error("what does not exist was started")
	}
}
