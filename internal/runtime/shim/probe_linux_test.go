package shim

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// repairUntilDone repairs the slots, as the daemon does, until a session has ended.
func repairUntilDone(t *testing.T, r *Runtime, s *session) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		r.Repair()
		select {
		case <-s.Done():
			return
		case <-deadline:
			t.Fatal("the end of the agent was not noticed")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A shim that is stopped does not hide the end of its agent.
func TestStoppedShimHidesNoEnd(t *testing.T) {
	t.Parallel()
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	shim := shimOf(s)
	shim.Signal(syscall.SIGSTOP)
	awaitStopped(t, shim.PID)
	exectest.Signal(t, s.Observe().PID, syscall.SIGKILL)
	repairUntilDone(t, r, s)
	if e := s.Exit(); e.Kind != supervisor.Killed {
		t.Errorf("exit = %v, want what the shim has seen", e)
	}
	start(t, r, sh("app/a", 2, "exec sleep 1000"))
}

// A shim that does not respond when its agent has ended is killed, and the agent counts as lost.
func TestHungShimHidesNoEnd(t *testing.T) {
	t.Parallel()
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "sleep 1000 & echo pid $!; wait"))
	left := pids(t, s, 1)
	shim := shimOf(s)
	trace(t, shim)
	exectest.Signal(t, s.Observe().PID, syscall.SIGKILL)
	repairUntilDone(t, r, s)
	if e := s.Exit(); e.Kind != supervisor.Lost || e.Err == nil || e.Err.Error() != errHung.Error() {
		t.Errorf("exit = %v, want that it is lost, and why", e)
	}
	allGone(t, append(left, shim))
	start(t, r, sh("app/a", 2, "exec sleep 1000"))
}

// A shim that waits for what is left of its agent responds, and is left alone.
func TestShimThatAwaitsTheRestIsLeftAlone(t *testing.T) {
	r := open(t, slotsDir(t))
	l := sh("app/a", 1, `sh -c 'trap "" TERM; echo pid $$; until [ -e "$1" ]; do sleep 0.05; done' sh "$1"; :`)
	l.Argv, l.Grace = append(l.Argv, filepath.Join(t.TempDir(), "go")), 2*testTimeout
	s := start(t, r, l)
	member := pids(t, s, 1)[0]
	leader, err := proc.Identify(s.Observe().PID)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := leader.AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.Repair()
		s.askShim()
	}
	if proc.Observe(member) != proc.Alive || proc.Observe(shimOf(s)) != proc.Alive {
		t.Error("it was not left alone")
	}
	if err := os.WriteFile(l.Argv[len(l.Argv)-1], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end", s.Done())
}

// trace stops all threads of a process in a way that SIGCONT does not undo.
func trace(t *testing.T, id proc.Identity) {
	t.Helper()
	t.Cleanup(func() { id.Signal(syscall.SIGKILL) })
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the tracer is a thread, which ends with this goroutine
		traced, err := attachAll(id.PID)
		result <- err
		for tid := range traced {
			if tid != id.PID { // the first one is traced by the parent
				syscall.Wait4(tid, nil, unix.WALL, nil)
			}
		}
	}()
	if err := <-result; errors.Is(err, syscall.EPERM) {
		t.Skip("tracing is not allowed here")
	} else if err != nil {
		t.Fatal(err)
	}
}

func attachAll(pid int) (traced map[int]bool, err error) {
	traced = make(map[int]bool)
	for again := true; again; {
		again = false
		dirs, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
		if err != nil {
			return traced, err
		}
		for _, dir := range dirs {
			tid, _ := strconv.Atoi(filepath.Base(dir))
			if traced[tid] {
				continue
			}
			if err := unix.PtraceAttach(tid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return traced, err
			}
			traced[tid], again = true, true
			if _, err := syscall.Wait4(tid, nil, unix.WALL, nil); err != nil {
				return traced, err
			}
		}
	}
	return traced, nil
}
