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

// The agents of a shim are told apart, and so is what they have left behind.
func TestFamily(t *testing.T) {
	t.Parallel()
	// 10 is the daemon. 20 is a shim with the agent 21, its child 22, and 23, whose parent has exited,
	// and the same for the agent 25. 30 is a tmux server with the agents 31 and 40.
	parents := map[int]int{
		1: 0, 10: 1, 20: 1, 21: 20, 22: 21, 23: 20, 24: 23, 25: 20, 26: 25, 27: 20,
		30: 1, 31: 30, 32: 31, 40: 30, 50: 1, 51: 50,
	}
	isShim := func(pid int) bool { return pid == 20 }
	mark := func(pid int) proc.Mark { return proc.MarkOf(uint64(pid / 25)) }
	usages := map[int]proc.Usage{}
	for pid, parent := range parents {
		usages[pid] = proc.Usage{Parent: parent}
	}
	all := newProcesses(usages, isShim, mark)
	for agent, want := range map[int][]int{
		21: {21, 22, 23, 24}, 25: {25, 26, 27}, 31: {31, 32}, 40: {40}, 50: {50, 51},
	} {
		got := all.family(agent)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", agent, got, want)
		}
	}
	all.children[24] = []int{21} // a cycle, which reused pids can cause
	if got := all.family(21); len(got) != 4 {
		t.Error(got)
	}
}

// The resources of a grandchild count for the agent.
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
	// What was used stays in the sum when it has ended, and when the agent runs again.
	total := m.Sample(nodes, daemon)["a"].CPUTime
	if total <= 0 {
		t.Errorf("%v in total", total)
	}
	nodes[0].PID = 0
	if used := m.Sample(nodes, daemon); len(used) != 0 {
		t.Error(used)
	}
	nodes[0].PID = syscall.Getpid() // the next incarnation
	again := m.Sample(nodes, daemon)["a"]
	if again.CPUTime < total || again.Processes < 2 {
		t.Errorf("%+v, want more than %v and several processes", again, total)
	}
}
