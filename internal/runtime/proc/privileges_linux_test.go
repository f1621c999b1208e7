package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
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

// The thread of a restricted process ends with it, and a process dies with the thread that has forked it. No other
// process has that thread.
func TestRestrictedProcessesEndAlone(t *testing.T) {
	var others [4]*Process
	var starting, started sync.WaitGroup
	starting.Add(len(others))
	for i := range others {
		started.Go(func() { // each on a thread of its own, as far as there are that many
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			p, err := Start(sh("exec sleep 1000"), Output{})
			if others[i] = p; err != nil {
				t.Error(err)
			}
			starting.Done()
			starting.Wait()
		})
	}
	started.Wait()
	for range 20 {
		cmd := sh("exit 0")
		cmd.NoNewPrivileges = true
		p, err := Start(cmd, Output{})
		if err != nil {
			t.Fatal(err)
		}
		wait(t, "the exit", p.Done())
	}
	for deadline := time.Now().Add(testTimeout); threadsThat(t) > 0 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	for i, p := range others {
		if id, err := p.Identity(); err != nil || Observe(id) != Alive {
			t.Errorf("process %d: %v, %v", i, p.Exit(), err)
		}
		p.Kill()
		wait(t, "the exit", p.Done())
	}
}
