package spec

import (
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Patrol has the settings of reconciliation. Tree.Patrol has all of them: those that were
// set, and the defaults of DefaultPatrol.
type Patrol struct {
	// Interval is the time between two passes; at least MinPatrolInterval.
	Interval time.Duration
	// Limit is the default limit of agents. The agents of a Tree have it
	// already; see Agent.DefaultLimit.
	Limit supervisor.Limit
	// ShutdownTimeout is how long all agents together have to end by
	// themselves when everything stops. 0: they are killed at once.
	ShutdownTimeout time.Duration
	// DriftDrainTimeout is how long an agent that no longer is as the file
	// says may take to finish what it does, before it is restarted.
	DriftDrainTimeout time.Duration
	// Starts is how many agents are being started at a time, at least 1.
	Starts int
	// GCInterval is the time between two purges of records, TTL how long one
	// that is closed is kept. Nothing is purged unless both are above zero.
	GCInterval, TTL time.Duration
	// MaxClaims is how many claims of a task may fail before it is parked, where
	// the task does not say so itself. 0: it never is.
	MaxClaims int
}

// Purges reports whether old records are removed.
func (p Patrol) Purges() bool { return p.GCInterval > 0 && p.TTL > 0 }

// Bounds of Patrol.
const (
	MinPatrolInterval = 10 * time.Millisecond
	MaxStarts         = 1000
	MaxClaims         = 1000
)
