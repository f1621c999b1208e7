package config

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// patrol is [daemon] while it is read.
type patrol struct {
	spec.Patrol
	limit setting.Limit
}

func daemonTable() toml.Table[patrol] {
	return toml.Table[patrol]{
		Header: "[daemon]",
		Doc: "How the daemon runs the fleet, and the default limit of agents. An agent that sets no limit " +
			"(`max_restarts`, `restart_window`, `on_limit`) is quarantined after `max_restarts` starts within " +
			"`restart_window`. Its first start counts. A restart for a change of the file does not count, nor " +
			"does a run that lasted a minute and ended with exit code 0. A manual start begins a new window. A " +
			"quarantine ends on its own when old starts leave the window. If the supervisor of an agent sets a " +
			"limit, in `[[supervisor]]` or `[supervision]`, the agent's restarts count there instead. For agents " +
			"directly under the root, `max_restarts` and `restart_window` of this table take precedence.",
		Example: `[daemon]
patrol_interval = "30s"
max_restarts = 20
restart_window = "1h"
shutdown_timeout = "5s"
`,
		Keys: []toml.Key[patrol]{
			{Name: "patrol_interval", Type: "duration", Default: "30s", Doc: "the time between two " +
				"reconciliations, at least 10ms. An exit of an agent is handled at once, without waiting for one",
				Also: []string{"interval", "tick", "tick_interval"},
				Read: func(r *toml.Reader, v *toml.Value, into *patrol) {
					d, ok := r.Duration(v)
					switch {
					case ok && d < spec.MinPatrolInterval:
						r.Fail(v, "", "patrol_interval is %v, expected at least %v", d, spec.MinPatrolInterval)
					case ok:
						into.Interval = d
					}
				}},
			{Name: "max_restarts", Type: setting.MaxType, Default: "20", Doc: "starts of one agent within " +
				"`restart_window`, the first one included, before it is quarantined. `0` is the same as " +
				"`\"unlimited\"`",
				Also: []string{"intensity", "max_retries", "retries"},
				Read: func(r *toml.Reader, v *toml.Value, into *patrol) {
					setting.ReadMaxRestarts(r, v, &into.limit)
					if m := into.limit.Max; m != nil && *m == 0 {
						*m = supervisor.Unlimited
					}
				}},
			setting.Window("restart_window", "1h", "the window in which starts count",
				func(p *patrol) *setting.Limit { return &p.limit }),
			{Name: "shutdown_timeout", Type: toml.DurationOrZeroType, Default: "5s",
				Doc: "how long an agent without a `grace` of its own has to end when the fleet, or a supervisor " +
					"by hand, is stopped; all agents are asked at once. With `\"0s\"` all are killed at once. " +
					"See [Lifecycle](lifecycle.md)",
				Also: []string{"stop_timeout", "grace"},
				Read: func(r *toml.Reader, v *toml.Value, into *patrol) {
					if d, ok := r.DurationOrZero(v); ok {
						into.ShutdownTimeout = d
					}
				}},
			{Name: "drift_drain_timeout", Type: "duration", Default: "2m", Doc: "how long an agent that differs " +
				"from this file may take to finish its work before it is restarted with the new settings",
				Also: []string{"drain_timeout"},
				Read: toml.Duration(func(p *patrol) *time.Duration { return &p.DriftDrainTimeout })},
			{Name: "max_parallel_starts", Type: "integer", Default: "8",
				Doc:  fmt.Sprintf("how many agents are being started at a time, 1 to %d", spec.MaxStarts),
				Also: []string{"max_wakes_per_tick", "parallel_starts", "concurrency"},
				Read: toml.Int(1, spec.MaxStarts, func(p *patrol) *int { return &p.Starts })},
			{Name: "agents_per_shim", Type: "integer", Default: "100", Doc: fmt.Sprintf("how many agents of a "+
				"supervisor share the process next to them, 1 to %d, see [Runtimes](runtimes.md#shims). It holds "+
				"for agents that start from now on", spec.MaxPerShim),
				Read: toml.Int(1, spec.MaxPerShim, func(p *patrol) *int { return &p.PerShim })},
			{Name: "program_memory", Type: "size", Default: `"2GiB"`, Doc: "the memory that the process of a Sage " +
				"program may use, at least 64 MiB. If it needs more, its agents end with a failure and start again " +
				"in another process, see [Sage](sage.md#programs-in-the-daemon). It holds for processes that start " +
				"from now on",
				Read: toml.Size(spec.MinProgramMemory, "64 MiB", func(p *patrol) *int64 { return &p.ProgramMemory })},
			{Name: "max_claims", Type: "integer", Default: "3", Doc: "how many claims of a task may fail before " +
				"it is parked, see [Tasks](tasks.md). `0`: it is never parked",
				Also: []string{"max_attempts", "max_tries"},
				Read: toml.Int(0, spec.MaxClaims, func(p *patrol) *int { return &p.MaxClaims })},
			{Name: "max_failed_tasks", Type: "integer", Default: "3", Doc: "how many different tasks of a pool " +
				"fail within `failed_tasks_window` before the pool is paused, see [Tasks](tasks.md#paused-pools). " +
				"`0`: none is paused",
				Read: toml.Int(0, spec.MaxFailedTasks, func(p *patrol) *int { return &p.MaxFailedTasks })},
			{Name: "failed_tasks_window", Type: "duration", Default: "5m", Doc: "the time of `max_failed_tasks`",
				Read: toml.Duration(func(p *patrol) *time.Duration { return &p.FailedTasksWindow })},
			{Name: "gc_interval", Type: "duration", Doc: "the time between two purges of closed records of work. " +
				"Nothing is purged unless `ttl` is set as well", Also: []string{"purge_interval"},
				Read: toml.Duration(func(p *patrol) *time.Duration { return &p.GCInterval })},
			{Name: "ttl", Type: "duration", Doc: "how long a closed record is kept, as in `\"7d\"`",
				Also: []string{"retention"}, Read: toml.Duration(func(p *patrol) *time.Duration { return &p.TTL })},
			alias("wisp_gc_interval", "gc_interval", func(p *patrol) *time.Duration { return &p.GCInterval }),
			alias("wisp_ttl", "ttl", func(p *patrol) *time.Duration { return &p.TTL }),
		},
	}
}

// alias returns a key that is another spelling of the key plain.
func alias(name, plain string, field func(*patrol) *time.Duration) toml.Key[patrol] {
	return toml.Key[patrol]{Name: name, Type: "duration", Doc: "another spelling of `" + plain + "`",
		Read: func(r *toml.Reader, v *toml.Value, into *patrol) {
			if v.Parent.Field(plain) != nil {
				r.FailKey(v, "remove one of the two", "%s and %s mean the same, expected one of them",
					name, plain)
				return
			}
			toml.Duration(field)(r, v, into)
		}}
}

// apply sets the defaults of agents without a limit or a backoff. If the file sets a limit
// for the supervisor of an agent, restarts count there and the agent has no limit of its own.
// Instances of pools always have their own.
func (p *patrol) apply(agents []*agent, supervisors []group, supervision setting.Limit) {
	p.Limit = p.limit.Over(supervisor.ScopeChild, supervisor.Quarantine)
	above := map[string]setting.Limit{} // limit set for the supervisor of an agent, by name of the agent
	for i := range supervisors {
		g := &supervisors[i]
		for _, name := range g.children {
			above[name] = g.limit.Or(supervision)
		}
	}
	for _, a := range agents {
		if a.backoff == nil {
			a.Backoff, a.DefaultBackoff = spec.DefaultBackoff(), true
		}
		stated, named := above[a.Name]
		if !named && p.limit == (setting.Limit{}) {
			stated = supervision
		}
		if a.limit == (setting.Limit{}) && (a.pool != nil || stated == setting.Limit{}) {
			a.Limit, a.DefaultLimit = p.Limit, true
		}
	}
}

const suspendedDoc = "it is not started, and stopped if it runs, until this is `false` again"

// suspendedKey returns the key suspended.
func suspendedKey[T any](doc string, field func(*T) *bool) toml.Key[T] {
	return toml.Key[T]{Name: "suspended", Type: "boolean", Default: "false", Doc: doc,
		Also: []string{"disabled", "paused"}, Read: toml.Bool(field)}
}
