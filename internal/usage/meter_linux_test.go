package usage

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

func TestFamily(t *testing.T) {
	t.Parallel()
	// 10 is the daemon, 20 a shim with the agent 21, its child 22, and 23, which
	// has lost its parent; 30 and 40 are a server of tmux with two agents.
	parents := map[int]int{1: 0, 10: 1, 20: 1, 21: 20, 22: 21, 23: 20, 24: 23, 30: 1, 31: 30, 32: 31, 40: 30, 50: 1, 51: 50}
	isShim := func(pid int) bool { return pid == 20 }
	usages, children := map[int]proc.Usage{}, map[int][]int{}
	for pid, parent := range parents {
		usages[pid] = proc.Usage{Parent: parent}
		children[parent] = append(children[parent], pid)
	}
	for agent, want := range map[int][]int{21: {20, 21, 22, 23, 24}, 31: {31, 32}, 40: {40}, 50: {50, 51}} {
		got := family(agent, isShim, usages, children)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", agent, got, want)
		}
	}
	children[24] = []int{21} // pids that were used again while we looked
	if got := family(21, isShim, usages, children); len(got) != 5 {
		t.Error(got)
	}
}

// What a grandchild uses is the agent's.
func TestMeter(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", "(/bin/sh -c 'echo up; while :; do :; done'; :) & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() })
	bufio.NewReader(out).ReadString('\n')
	nodes := []status.Node{
		{Path: "a", PID: cmd.Process.Pid, Host: "here"}, {Path: "gone", PID: 1 << 30, Host: "here"},
		{Path: "elsewhere", PID: cmd.Process.Pid, Host: "there"}, {Path: "idle", Host: "here"},
	}
	// This process stands for the daemon, whose other children are not the agent's.
	daemon := status.Controller{PID: syscall.Getpid(), Host: "here"}
	var m Meter
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		used := m.Sample(nodes, daemon)
		if len(used) != 1 || used["a"].Memory < 100<<10 || used["a"].Memory > 100<<20 {
			t.Fatalf("%v", used)
		}
		if cpu := used["a"].CPU; cpu > 0.01 && cpu < 3 {
			break
		} else if time.Now().After(end) {
			t.Fatal(fmt.Sprint("no processor time: ", cpu))
		}
	}
}
