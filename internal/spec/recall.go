package spec

import "github.com/coppice-dev/coppice/supervisor"

// Recall selects what a new daemon keeps of the limits of the one before: restart
// counters, delays, quarantines, give-ups. It always keeps manual stops, and pauses until
// they are resumed.
type Recall uint8

const (
	// RecallMost is the default: limits that quarantine start from zero with each
	// daemon, as in Gas City. All others continue where they were, as they wait
	// for people or end supervisors.
	RecallMost Recall = iota
	// RecallAll is [supervision] persist = true.
	RecallAll
	// RecallNothing is persist = false, which keeps nothing.
	RecallNothing
)

// Forgets reports whether what a limit had counted and decided ends with the daemon.
func (r Recall) Forgets(l supervisor.Limit) bool {
	return r == RecallNothing || r == RecallMost && l.OnLimit == supervisor.Quarantine
}
