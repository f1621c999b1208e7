package spec

import (
	"cmp"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// OTLP is the receiver of what command lines export over OTLP.
type OTLP struct {
	Listen string // address and port; empty if there is no receiver
}

// Metrics are the settings of the metrics for Prometheus.
type Metrics struct {
	Listen    string // address and port; empty if there are none
	MaxAgents int    // agents with series of their own, from 1 to MaxMetricsAgents
}

func (m Metrics) String() string {
	if m.Listen == "" {
		return "none"
	}
	return fmt.Sprintf("%s with at most %d agents", m.Listen, m.MaxAgents)
}

// Web is the web page that the daemon serves.
type Web struct {
	Listen   string // address and port; empty if it serves none
	ReadOnly bool   // it only shows the fleet
	Hosts    []string
}

// Bounds of Web.Hosts: how many, and the bytes of one.
const (
	MaxWebHosts = 64
	MaxWebHost  = 253
)

// Bounds of Metrics.
const (
	DefaultMetricsAgents = 1000
	MaxMetricsAgents     = 100_000
)

// Patrol holds the settings of reconciliation. In Tree.Patrol, defaults are filled in from
// DefaultPatrol.
type Patrol struct {
	// Interval is the time between two passes; at least MinPatrolInterval.
	Interval time.Duration
	// Limit is the default limit of agents. In a Tree it is already applied; see
	// Agent.DefaultLimit.
	Limit supervisor.Limit
	// ShutdownTimeout is the time that all agents have to end when everything stops. With 0
	// they are killed at once.
	ShutdownTimeout time.Duration
	// DriftDrainTimeout is the time that an agent whose configuration has changed has to finish
	// its work before it is restarted.
	DriftDrainTimeout time.Duration
	// Starts is the largest number of concurrent starts, at least 1.
	Starts int
	// PerShim is the largest number of agents of a supervisor that share a shim, at least 1.
	PerShim int
	// ProgramMemory is the memory in bytes that the process of a Sage program may use.
	ProgramMemory int64
	// GCInterval is the time between two purges of records. TTL is the time that a closed record
	// is kept. Nothing is purged unless both are above zero.
	GCInterval, TTL time.Duration
	// MaxClaims is the number of claims of a task that may fail before it is parked, unless the
	// task sets its own. With 0 tasks are never parked.
	MaxClaims int
	// MaxFailedTasks is the number of tasks of a pool that may fail within FailedTasksWindow before the
	// pool is paused. With 0 none is.
	MaxFailedTasks    int
	FailedTasksWindow time.Duration
}

// Purges reports whether old records are removed.
func (p Patrol) Purges() bool { return p.GCInterval > 0 && p.TTL > 0 }

// Bounds of Patrol.
const (
	MinPatrolInterval = 10 * time.Millisecond
	MaxStarts         = 1000
	MaxPerShim        = 256
	MinProgramMemory  = 64 << 20
	MaxClaims         = 1000
	MaxFailedTasks    = 50
)

// Defaults of fields of Patrol.
const (
	DefaultMaxClaims = 3
	DefaultPerShim   = 100

	DefaultProgramMemory = 2 << 30
)

// DefaultPatrol returns the default settings.
//
// With DefaultBackoff, agents whose dependency is down for two minutes use up 20 starts less
// than once in a million times. An agent that always crashes is quarantined after about seven
// minutes.
func DefaultPatrol() Patrol {
	return Patrol{
		Interval: 30 * time.Second, Limit: supervisor.Quarantining(20, time.Hour),
		ShutdownTimeout: 5 * time.Second, DriftDrainTimeout: 2 * time.Minute, Starts: 8, PerShim: DefaultPerShim,
		ProgramMemory: DefaultProgramMemory,
		MaxClaims:     DefaultMaxClaims, MaxFailedTasks: 3, FailedTasksWindow: 5 * time.Minute,
	}
}

// DefaultBackoff returns the default delay before a restart.
func DefaultBackoff() supervisor.Backoff {
	return supervisor.Backoff{Kind: supervisor.Exponential, Base: time.Second, Cap: time.Minute, Jitter: true}
}

// Persistence is the store of the state of a project.
type Persistence struct {
	Backend Backend
	// Path is the absolute path of the SQLite file; if empty, the default of the daemon.
	Path string
}

// Backend is a kind of store.
type Backend uint8

const (
	SQLite Backend = iota // a file
	Memory                // state ends with the daemon
)

func (b Backend) String() string { return EnumName(b, "sqlite", "memory") }

// Retention limits the event log of a project. Older events, and those beyond the size, are
// removed from its beginning. The zero value means the defaults.
type Retention struct {
	MaxAge   time.Duration // 30 days if 0; no limit if negative
	MaxBytes int64         // 256 MiB if 0
}

// Defaults and bounds of Retention.
const (
	DefaultEventAge   = 30 * 24 * time.Hour
	DefaultEventBytes = 256 << 20
	MinEventBytes     = 1 << 20
)

// Bounds returns the effective values. An age of 0 means no limit.
func (r Retention) Bounds() (maxAge time.Duration, maxBytes int64) {
	return max(cmp.Or(r.MaxAge, DefaultEventAge), 0), cmp.Or(r.MaxBytes, DefaultEventBytes)
}

// Logs limits the output that is kept of an agent. Zero means the default.
type Logs struct {
	MaxSize int64 // bytes of a file before it is rotated
	Keep    int   // number of rotated files
}

// Bounds of Logs.
const (
	MinLogSize  = 1 << 10
	MaxLogFiles = 100
)

// Or returns the limits, with those that are not set from others.
func (l Logs) Or(others Logs) Logs {
	return Logs{cmp.Or(l.MaxSize, others.MaxSize), cmp.Or(l.Keep, others.Keep)}
}

// RestorePolicy selects which restart counters, delays, quarantines and give-ups a new daemon
// restores. Manual stops and pauses are always restored.
type RestorePolicy uint8

const (
	// RestoreMost is the default. Limits that quarantine start from zero with each daemon, as in
	// Gas City. All others continue, as they wait for people or end supervisors.
	RestoreMost RestorePolicy = iota
	// RestoreAll is [supervision] persist = true.
	RestoreAll
	// RestoreNothing is [supervision] persist = false.
	RestoreNothing
)

// Forgets reports whether the state of a limit ends with the daemon.
func (p RestorePolicy) Forgets(l supervisor.Limit) bool {
	return p == RestoreNothing || p == RestoreMost && l.OnLimit == supervisor.Quarantine
}
