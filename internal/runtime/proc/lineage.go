package proc

// Lineage says where a living process belongs.
type Lineage struct {
	// Processes are the process itself, its parent, the parent of that, and so
	// on, up to the first process that this one can see.
	Processes []Identity
	// Group is the path of its control group (cgroup v2); empty if it has none.
	Group string
}
