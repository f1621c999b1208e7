package usage

import (
	"time"

	"github.com/prometheus/procfs"

	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/status"
)

// Meter measures what agents use between two samples.
type Meter struct {
	at  time.Time
	cpu map[processID]float64 // seconds so far
}

// processID identifies a process even if its pid is used again.
type processID struct {
	pid     int
	started uint64
}

// Sample returns what each agent of this machine uses, including its descendants and its
// shim, by path. Processes that this user cannot read are not counted.
func (m *Meter) Sample(nodes []status.Node, daemon status.Controller) map[string]Resources {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil
	}
	all, err := fs.AllProcs()
	if err != nil {
		return nil
	}
	stats := make(map[int]procfs.ProcStat, len(all))
	children := map[int][]int{}
	for _, p := range all {
		if st, err := p.Stat(); err == nil { // else it has ended
			stats[st.PID] = st
			children[st.PPID] = append(children[st.PPID], st.PID)
		}
	}
	now := time.Now()
	passed := now.Sub(m.at).Seconds()
	before := m.cpu
	m.at, m.cpu = now, make(map[processID]float64)
	used := map[string]Resources{}
	for _, n := range nodes {
		if _, ok := stats[n.PID]; n.PID == 0 || n.Host != daemon.Host || !ok {
			continue
		}
		var u Resources
		for _, pid := range family(n.PID, isShim, stats, children) {
			st := stats[pid]
			id := processID{pid, st.Starttime}
			m.cpu[id] = st.CPUTime()
			if last, ok := before[id]; ok && passed > 0 {
				u.CPU += max(0, st.CPUTime()-last) / passed
			}
			u.Memory += uint64(max(0, st.ResidentMemory()))
		}
		used[n.Path] = u
	}
	return used
}

// isShim reports whether a process is the shim of an agent.
func isShim(pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	args, err := p.CmdLine()
	return err == nil && len(args) > 2 && args[1] == "shim" && args[2] == server.RunArg
}

// family returns an agent, its shim and the descendants of both. A descendant whose parent
// has exited is a child of the shim.
func family(agent int, isShim func(pid int) bool, stats map[int]procfs.ProcStat, children map[int][]int) []int {
	todo := []int{agent}
	if parent := stats[agent].PPID; parent > 1 && isShim(parent) {
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
