//go:build linux

package census

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func begin(t *testing.T) *Census {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run starts a program and ends it after the test.
func run(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func fine() error { return nil }

func TestCount(t *testing.T) {
	t.Parallel()
	c, other := begin(t), begin(t)
	if n, err := c.Count(); n != 0 || err != nil {
		t.Fatalf("%d agents before the first: %v", n, err)
	}
	first := run(t, c.Agent...)
	run(t, "/bin/sleep", c.Agent[1])
	run(t, other.Agent...)
	if err := c.Await(2, 10*time.Second, fine); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Agents(), first.Process.Pid) || len(c.Agents()) != 2 {
		t.Errorf("agents %v, the first is %d", c.Agents(), first.Process.Pid)
	}
	if late := begin(t); late.seen[first.Process.Pid] != foreign {
		t.Error("a census counts what ran before it")
	}

	if err := c.Kill(first.Process.Pid); err != nil {
		t.Fatal(err)
	}
	// It is a zombie as long as nothing waits for it.
	if n, err := c.Count(); n != 1 || err != nil {
		t.Errorf("%d agents after one was killed: %v", n, err)
	}
	if err := c.Kill(os.Getpid()); err == nil {
		t.Error("killed a process that is no agent")
	}
}

// TestSupervisors has a shell that starts a program that is no agent, and a shell that starts an
// agent. The command lines of both shells contain that of the agent.
func TestSupervisors(t *testing.T) {
	t.Parallel()
	c := begin(t)
	lead := exec.Command("sh", "-c", "sleep 1000000 & sh -c '"+strings.Join(c.Agent, " ")+" & wait' & wait")
	lead.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := lead.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-lead.Process.Pid, syscall.SIGKILL)
		lead.Wait()
	})
	run(t, "sleep", "1000000") // of somebody else
	if err := c.Await(1, 10*time.Second, fine); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{lead.Process.Pid, c.Agents()[0]} {
		got, err := c.Supervisors(pid)
		if err != nil || len(got) != 3 || !slices.Contains(got, lead.Process.Pid) ||
			slices.Contains(got, c.Agents()[0]) {
			t.Errorf("supervisors %v, want %d and two of its descendants: %v", got, lead.Process.Pid, err)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	c := begin(t)
	if err := c.Await(1, 0, fine); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "0 of 1 agents") {
		t.Errorf("no agent in no time: %v", err)
	}
	dead := errors.New("dead")
	if err := c.Await(1, time.Hour, func() error { return dead }); !errors.Is(err, dead) {
		t.Errorf("the supervisor has ended: %v", err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	self := []int{os.Getpid()}
	before, err := CPU(self)
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for begun := time.Now(); err == nil && after == before && time.Since(begun) < 10*time.Second; {
		after, err = CPU(self) // it uses some itself
	}
	if err != nil || after <= before || after > before+time.Minute {
		t.Errorf("processor time %v, then %v: %v", before, after, err)
	}
	rss, pss, err := Memory(self)
	if err != nil || pss < 1 || pss > rss || rss > 4096 {
		t.Errorf("%v MB resident, %v its part: %v", rss, pss, err)
	}
	if _, err := CPU([]int{-1}); err == nil {
		t.Error("the processor time of no process")
	}
	if _, _, err := Memory([]int{-1}); err == nil {
		t.Error("the memory of no process")
	}
}
