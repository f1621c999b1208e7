package proc

import (
	"errors"
	"os"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/supervisor"
)

// gone waits for the end of a process that is not a child.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("no pid: %q", pid)
	}
	fd, err := unix.PidfdOpen(n, 0)
	if errors.Is(err, syscall.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		k, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(testTimeout.Milliseconds()))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || k == 0 {
			syscall.Kill(n, syscall.SIGKILL)
			t.Fatalf("process %d is still there (%v)", n, err)
		}
		return
	}
}

func killPID(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("no pid: %q", pid)
	}
	syscall.Kill(n, syscall.SIGKILL)
	gone(t, pid)
}

// A grandchild in its own session keeps the pipe open and cannot be found after its parent has
// died. The exit must come anyway, with all output of the leader.
func TestGrandchildHoldsThePipe(t *testing.T) {
	exectest.Need(t, "setsid")
	stdin, release := exectest.GatedStdin(t)
	cmd := sh(`setsid sh -c 'echo "grandchild $$"; exec sleep 1000' & read x; echo last; printf unfinished; exit 4`)
	cmd.Stdin = stdin
	p, out := start(t, cmd)
	grandchild := out.await(t, "grandchild ")
	release()
	begin := time.Now()
	e := exitOf(t, p)
	var ee *ExitError
	if !errors.As(e.Err, &ee) || ee.Code != 4 {
		t.Fatalf("exit = %v, want code 4", e)
	}
	if !reflect.DeepEqual(tail(ee.LastOutput, 2), []string{"last", "unfinished"}) {
		t.Errorf("last output = %q", ee.LastOutput)
	}
	wait(t, "the end of the output", p.Drained())
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("the output was given up after %v only", d)
	}
	killPID(t, grandchild)
}

func tail(s []string, n int) []string { return s[max(0, len(s)-n):] }

// endNow stops a process with a short grace period.
func endNow(p *Process) { p.End(50 * time.Millisecond) }

// Whatever ends the leader, nothing of its group stays.
func TestGroupIsKilled(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script string
		end    func(*Process)
	}{
		{"leader exits", `sh -c 'trap "" TERM HUP; echo "grandchild $$"; while :; do sleep 1000; done' & read x`, nil},
		{"leader obeys, grandchild does not", `sh -c 'trap "" TERM; echo "grandchild $$"; while :; do sleep 1000; done' & wait`, endNow},
		{"kill", `sh -c 'trap "" TERM; echo "grandchild $$"; while :; do sleep 1000; done' & wait`, (*Process).Kill},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdin, release := exectest.GatedStdin(t)
			cmd := sh(tt.script)
			cmd.Stdin = stdin
			p, out := start(t, cmd)
			pid := out.await(t, "grandchild ")
			if tt.end != nil {
				tt.end(p)
			} else {
				release()
			}
			exitOf(t, p)
			gone(t, pid)
		})
	}
}

// A grandchild in its own session is outside of the group, but was seen before its parent died.
func TestEscapedGrandchildIsKilled(t *testing.T) {
	for _, end := range []func(*Process){endNow, (*Process).Kill} {
		p, out := start(t, sh(`setsid sh -c 'trap "" TERM HUP; sleep 1000 & echo "grandgrandchild $!"; echo "grandchild $$"; while :; do sleep 1000; done' & wait`))
		child, grandchild := out.await(t, "grandchild "), out.await(t, "grandgrandchild ")
		end(p)
		exitOf(t, p)
		gone(t, child)
		gone(t, grandchild)
	}
}

// The leader has moved to the group of this program, and a child has stayed in the old one; both
// are stopped.
func TestLeaderLeftItsGroup(t *testing.T) {
	exectest.Need(t, "perl")
	p, out := start(t, Command{Argv: []string{"/usr/bin/perl", "-e",
		`$| = 1; $c = fork; sleep 1000 if !$c; setpgrp(0, getpgrp(getppid())) or die $!; print "child $c\n"; sleep 1000`}})
	child := out.await(t, "child ")
	p.Stop()
	if e := exitOf(t, p); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v", e)
	}
	gone(t, child)
}

// When the program that started an agent is killed, the agent dies with it.
func TestDiesWithItsStarter(t *testing.T) {
	p, out := start(t, helperCommand("starter"))
	agent := out.await(t, "agent ")
	if err := p.Signal(syscall.SIGKILL); err != nil { // no Kill: that would look for descendants
		t.Fatal(err)
	}
	exitOf(t, p)
	gone(t, agent)
}

// A child leaves no thread, descriptor or zombie behind.
func TestCostOfManyChildren(t *testing.T) {
	const n = 200
	count := func(dir string) int {
		names, err := readNumbers(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	warm, _ := start(t, sh("exit 0"))
	exitOf(t, warm)
	wait(t, "the end of the output", warm.Drained())
	threads, fds := count("/proc/self/task"), count("/proc/self/fd")

	var ps []*Process
	for range n {
		p, err := Start(Command{Argv: []string{"/bin/sleep", "1000"}}, Output{})
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	if got := count("/proc/self/task"); got > threads+20 {
		t.Errorf("%d threads with %d children, %d without", got, n, threads)
	}
	if got := count("/proc/self/fd"); got > fds+3*n {
		t.Errorf("%d descriptors with %d children, %d without", got, n, fds)
	}
	for _, p := range ps {
		p.Stop()
	}
	for _, p := range ps {
		if e := exitOf(t, p); e.Kind != supervisor.ShutDown {
			t.Errorf("exit = %v", e)
		}
		wait(t, "the end of the output", p.Drained())
	}
	if got := count("/proc/self/fd"); got > fds {
		t.Errorf("%d descriptors after %d children, %d before", got, n, fds)
	}
	for range n {
		Start(Command{Argv: []string{"/no/such/program"}}, Output{})
	}
	if got := count("/proc/self/fd"); got > fds {
		t.Errorf("%d descriptors after %d failed starts, %d before", got, n, fds)
	}
	family, err := Descendants(os.Getpid())
	if err != nil || len(family) > 0 {
		t.Errorf("left behind: %v, %v", family, err)
	}
}

// Another part of the program may reap all children and so take the status; that is an exit,
// too.
func TestLost(t *testing.T) {
	stdin, release := exectest.GatedStdin(t)
	cmd := sh("read x; exit 3")
	cmd.Stdin = stdin
	p, _ := start(t, cmd)
	stolen := make(chan struct{})
	go func() {
		var ws syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(p.PID(), &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		close(stolen)
	}()
	p.mu.Lock() // watch cannot reap before the test does
	release()
	wait(t, "the theft", stolen)
	p.mu.Unlock()
	if e := exitOf(t, p); e.Kind != supervisor.Lost || e.Clean() {
		t.Errorf("exit = %v, want lost", e)
	}
}

// On a kernel without pidfds one thread waits, and the rest is the same.
func TestWithoutPidfd(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 9"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		t.Fatal(err)
	}
	l := &leader{pid: pid}
	if !l.await() {
		t.Error("await: not ours")
	}
	if err := l.signal(syscall.SIGTERM); err != nil { // a zombie accepts it
		t.Error(err)
	}
	if ws, ok := l.reap(); !ok || ws.ExitStatus() != 9 {
		t.Errorf("status %v, %v", ws, ok)
	}
}
