package usage

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/status"
)

// Meter measures the resources that agents use between two samples.
type Meter struct {
	at  time.Time
	cpu map[processID]time.Duration // so far
}

// processID identifies a process even if its pid is used again.
type processID struct {
	pid     int
	started uint64
}

// Sample returns the resources of each agent on this machine by path, including its descendants and
// its shim. Processes that this user cannot read are not counted.
func (m *Meter) Sample(nodes []status.Node, daemon status.Controller) map[string]Resources {
	usages, err := proc.Usages()
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for pid, u := range usages {
		children[u.Parent] = append(children[u.Parent], pid)
	}
	now := time.Now()
	elapsed := now.Sub(m.at)
	before := m.cpu
	m.at, m.cpu = now, make(map[processID]time.Duration)
	used := map[string]Resources{}
	for _, n := range nodes {
		if _, ok := usages[n.PID]; n.PID == 0 || n.Host != daemon.Host || !ok {
			continue
		}
		var sum Resources
		for _, pid := range family(n.PID, isShim, usages, children) {
			u := usages[pid]
			id := processID{pid, u.Start}
			m.cpu[id] = u.CPU
			if last, ok := before[id]; ok && elapsed > 0 {
				sum.CPU += max(0, u.CPU-last).Seconds() / elapsed.Seconds()
			}
			sum.Memory += u.Memory
		}
		used[n.Path] = sum
	}
	return used
}

// isShim reports whether a process is the shim of an agent.
func isShim(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := bytes.SplitN(line, []byte{0}, 4)
	return err == nil && len(args) == 4 && string(args[1]) == "shim" && string(args[2]) == server.RunArg
}

// family returns an agent, its shim and the descendants of both. A descendant whose parent
// has exited is a child of the shim.
func family(agent int, isShim func(pid int) bool, usages map[int]proc.Usage, children map[int][]int) []int {
	todo := []int{agent}
	if parent := usages[agent].Parent; parent > 1 && isShim(parent) {
		todo = []int{parent}
	}
	seen := map[int]bool{}
	var all []int
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
			todo = append(todo, children[pid]...)
		}
	}
	return all
}
