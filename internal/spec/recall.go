package spec

import "github.com/coppice-dev/coppice/supervisor"

// Recall is what a new daemon knows of what limits had counted and decided under
// the one before: restart counters, delays, quarantines, give-ups. What people
// have decided it knows in any case: stops by hand, and pauses until they are resumed.
type Recall uint8

const (
	// RecallMost is the default: limits that quarantine begin afresh with each
	// daemon (the Gas City seed, "Crash Loop Quarantine": in memory only), all
	// others go on where they were, as they wait for people or end supervisors.
	RecallMost Recall = iota
	// RecallAll is [supervision] persist = true.
	RecallAll
	// RecallNothing is persist = false, what the seeds do in memory.
	RecallNothing
)

// Forgets reports whether what a limit had counted and decided ends with the daemon.
func (r Recall) Forgets(l supervisor.Limit) bool {
	return r == RecallNothing || r == RecallMost && l.OnLimit == supervisor.Quarantine
}
