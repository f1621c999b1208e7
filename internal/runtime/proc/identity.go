package proc

import "syscall"

// Identity names one process of one machine for ever. A pid alone does not:
// it is given to somebody else sooner or later, and all of them are after a
// boot. The zero value names nothing and is never alive.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // time of its start, in clock ticks since the boot
	Boot  string `json:"boot"`  // id of the boot
}

// Observation is what is known about a process that somebody else started.
type Observation uint8

const (
	// Unknown: it cannot be told. Nothing must be started, stopped or restarted for it.
	Unknown Observation = iota
	// Alive: it runs.
	Alive
	// Dead: it has ended, although it may be a zombie that is not collected yet.
	Dead
)

// killTree sends SIGKILL to the process and its descendants, if it is still
// the one that was meant.
func (id Identity) killTree() {
	if Observe(id) != Alive {
		return
	}
	family, _ := descendants(id.PID) // without /proc there is only itself
	id.Signal(syscall.SIGKILL)
	for _, m := range family {
		m.Signal(syscall.SIGKILL)
	}
}

// Descendants lists the children of a process, their children, and so on, as
// far as the chain of living parents reaches. It is a snapshot of something
// that moves: who is started meanwhile may be missing.
func Descendants(pid int) ([]Identity, error) {
	family, err := descendants(pid)
	ids := make([]Identity, len(family))
	for i, m := range family {
		ids[i] = m.Identity
	}
	return ids, err
}

// member is a descendant and the process group it is in.
type member struct {
	Identity
	group int
}

// Lineage says where a living process belongs.
type Lineage struct {
	// Processes are the process itself, its parent, the parent of that, and so
	// on, up to the first process that this one can see.
	Processes []Identity
	// Group is the path of its control group (cgroup v2); empty if it has none.
	Group string
}
