package event

import "strings"

// Severity says how an event is shown to people.
type Severity int

const (
	Info    Severity = iota
	Good             // something works, or works again
	Change           // something stops or pauses as it should
	Problem          // something has failed
)

// Severity returns the severity of a type, also of one that this version does not know.
func (t Type) Severity() Severity {
	_, what, _ := strings.Cut(string(t), ".")
	switch what {
	case "started", "ready", "released", "adopted", "resumed", "recovered", "completed":
		return Good
	case "restarting", "stopping", "stopped", "suspended", "draining", "compacted", "reset":
		return Change
	case "crashed", "start_failed", "quarantined", "gave_up", "lost", "abandoned", "escalated", "paused", "rejected",
		"failed", "degraded", "dropped", "limit_reached":
		return Problem
	}
	return Info
}

// Problems returns the types of events that tell of a problem.
func Problems() (types []string) {
	for _, name := range all() {
		if Type(name).Severity() == Problem {
			types = append(types, name)
		}
	}
	return types
}
