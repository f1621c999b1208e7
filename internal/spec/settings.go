package spec

import (
	"cmp"
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

// Persistence is where the state of a project is kept.
type Persistence struct {
	Backend Backend
	// Path is the absolute path of the file of SQLite; the daemon's own if empty.
	Path string
}

// Backend is a kind of store.
type Backend uint8

const (
	SQLite Backend = iota // a file, which outlives everything
	Memory                // nothing that outlives the daemon
)

func (b Backend) String() string { return EnumName(b, "sqlite", "memory") }

// Retention bounds the event log of a project. What is older, or more, is removed from
// its beginning. The zero value has the defaults.
type Retention struct {
	MaxAge   time.Duration // 30 days if 0, no bound if negative
	MaxBytes int64         // 256 MiB if 0
}

// Defaults and bounds of Retention.
const (
	DefaultEventAge   = 30 * 24 * time.Hour
	DefaultEventBytes = 256 << 20
	MinEventBytes     = 1 << 20
)

// Bounds returns the values in force; an age of 0 is no bound.
func (r Retention) Bounds() (maxAge time.Duration, maxBytes int64) {
	return max(cmp.Or(r.MaxAge, DefaultEventAge), 0), cmp.Or(r.MaxBytes, DefaultEventBytes)
}

// Logs bounds the output that is kept of an agent. Zero is the default.
type Logs struct {
	MaxSize int64 // bytes of a file before it is rotated
	Keep    int   // rotated files
}

// Bounds of Logs.
const (
	MinLogSize  = 1 << 10
	MaxLogFiles = 100
)

// Or returns the bounds, and where they state none those of others.
func (l Logs) Or(others Logs) Logs {
	return Logs{cmp.Or(l.MaxSize, others.MaxSize), cmp.Or(l.Keep, others.Keep)}
}

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
