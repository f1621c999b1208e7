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
	at    time.Time
	cpu   map[processID]time.Duration // so far
	total map[string]time.Duration    // of agents
}

// processID identifies a process even if its pid is used again.
type processID struct {
	pid     int
	started uint64
}

// Sample returns the resources of each agent on this machine by path, including its descendants and
// what it has left behind. Processes that this user cannot read are not counted.
func (m *Meter) Sample(nodes []status.Node, daemon status.Controller) map[string]Resources {
	usages, err := proc.Usages()
	if err != nil {
		return nil
	}
	all := newProcesses(usages, isShim, proc.ReadMark)
	now := time.Now()
	elapsed := now.Sub(m.at)
	before, total := m.cpu, m.total
	m.at, m.cpu, m.total = now, make(map[processID]time.Duration), make(map[string]time.Duration)
	used := map[string]Resources{}
	for _, n := range nodes {
		if before, ok := total[n.Path]; ok {
			m.total[n.Path] = before
		}
		if _, ok := usages[n.PID]; n.PID == 0 || n.Host != daemon.Host || !ok {
			continue
		}
		var sum Resources
		for _, pid := range all.family(n.PID) {
			u := usages[pid]
			id := processID{pid, u.Start}
			m.cpu[id] = u.CPU
			last, ok := before[id]
			if ok && elapsed > 0 {
				sum.CPU += max(0, u.CPU-last).Seconds() / elapsed.Seconds()
			}
			sum.CPUTime += max(0, u.CPU-last)
			sum.Memory += u.Memory
			sum.Processes++
		}
		sum.CPUTime += m.total[n.Path]
		m.total[n.Path] = sum.CPUTime
		used[n.Path] = sum
	}
	return used
}

// isShim reports whether a process is a shim.
func isShim(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := bytes.SplitN(line, []byte{0}, 4)
	return err == nil && len(args) == 4 && string(args[1]) == "shim" && string(args[2]) == server.RunArg
}

// processes are those of the machine, at one time.
type processes struct {
	usages   map[int]proc.Usage
	children map[int][]int
	isShim   func(pid int) bool
	markOf   func(pid int) proc.Mark
	marks    map[int]proc.Mark // that were read
}

func newProcesses(
	usages map[int]proc.Usage, isShim func(pid int) bool, markOf func(pid int) proc.Mark,
) *processes {
	p := &processes{usages, map[int][]int{}, isShim, markOf, map[int]proc.Mark{}}
	for pid, u := range usages {
		p.children[u.Parent] = append(p.children[u.Parent], pid)
	}
	return p
}

// family returns an agent and its descendants. A descendant whose parent has exited is a child of the
// shim, which has other agents, too, and has the mark of its agent.
func (p *processes) family(agent int) (all []int) {
	todo := []int{agent}
	if shim := p.usages[agent].Parent; shim > 1 && p.isShim(shim) {
		for _, pid := range p.children[shim] {
			if p.mark(pid) == p.mark(agent) {
				todo = append(todo, pid)
			}
		}
	}
	seen := map[int]bool{}
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
			todo = append(todo, p.children[pid]...)
		}
	}
	return all
}

func (p *processes) mark(pid int) proc.Mark {
	m, ok := p.marks[pid]
	if !ok {
		m = p.markOf(pid)
		p.marks[pid] = m
	}
	return m
}
