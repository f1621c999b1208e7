package spec

import (
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// DefaultMaxClaims is how many claims of a task may fail, unless something else
// is stated.
const DefaultMaxClaims = 3

// DefaultPatrol returns the defaults.
//
// With DefaultBackoff, a dependency that is down for two minutes uses up 20
// starts less than once in a million times. An agent that keeps crashing is
// quarantined after some seven minutes.
func DefaultPatrol() Patrol {
	return Patrol{
		Interval: 30 * time.Second, Limit: supervisor.Quarantining(20, time.Hour),
		ShutdownTimeout: 5 * time.Second, DriftDrainTimeout: 2 * time.Minute, Starts: 8, MaxClaims: DefaultMaxClaims,
	}
}

// DefaultBackoff returns the delay before a restart of what states none.
func DefaultBackoff() supervisor.Backoff {
	return supervisor.Backoff{Kind: supervisor.Exponential, Base: time.Second, Cap: time.Minute, Jitter: true}
}
