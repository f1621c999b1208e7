package proc

import "syscall"

// Identity identifies a process of a machine forever. A pid alone does not, because it is
// reused, at the latest after a boot. The zero value is never alive.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // start time, in clock ticks since the boot
	Boot  string `json:"boot"`  // boot id
}

// Observation is the observed state of a process that need not be a child.
type Observation uint8

const (
	// Unknown means that the state cannot be determined. Nothing may be started, stopped or
	// restarted because of it.
	Unknown Observation = iota
	// Alive means that the process runs.
	Alive
	// Dead means that the process has ended; it may be a zombie.
	Dead
)

// killTree sends SIGKILL to the process and its descendants, unless it has ended.
func (id Identity) killTree() {
	if Observe(id) != Alive {
		return
	}
	family, _ := descendants(id.PID) // without /proc only the process itself is killed
	id.Signal(syscall.SIGKILL)
	for _, m := range family {
		m.Signal(syscall.SIGKILL)
	}
}

// Descendants lists the children of a process, their children, and so on, as long as the parents
// in between run. It is a snapshot: processes that are started meanwhile may be missing.
func Descendants(pid int) ([]Identity, error) {
	family, err := descendants(pid)
	ids := make([]Identity, len(family))
	for i, m := range family {
		ids[i] = m.Identity
	}
	return ids, err
}

// member is a descendant with its process group.
type member struct {
	Identity
	group int
}

// Lineage tells where a running process belongs.
type Lineage struct {
	// Processes holds the process, its parent, the parent of that, and so on, up to the first
	// process that is visible here.
	Processes []Identity
	// Group is the path of its control group (cgroup v2); empty if it has none.
	Group string
}
