// Package usage measures the processor time and memory of agents.
package usage

import (
	"fmt"
	"time"
)

// Resources are the resources that an agent uses.
type Resources struct {
	CPU       float64       // cores, since the sample before; 0 in the first one
	CPUTime   time.Duration // all that samples have seen, also of processes that have ended
	Memory    uint64        // bytes
	Processes int
}

// Add adds the resources of another agent.
func (r *Resources) Add(other Resources) {
	r.CPU += other.CPU
	r.CPUTime += other.CPUTime
	r.Memory += other.Memory
	r.Processes += other.Processes
}

// Processor formats the processor time in percent of a core.
func (r Resources) Processor() string { return fmt.Sprintf("%.0f%%", r.CPU*100) }

// Bytes formats the memory in the largest unit in which it is at least one.
func (r Resources) Bytes() string {
	const k = 1 << 10
	size := float64(r.Memory) / k
	for _, unit := range []string{"K", "M", "G"} {
		if size < 1000 {
			if size < 10 && unit != "K" {
				return fmt.Sprintf("%.1f%s", size, unit)
			}
			return fmt.Sprintf("%.0f%s", size, unit)
		}
		size /= k
	}
	return fmt.Sprintf("%.1fT", size)
}
