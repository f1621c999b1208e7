package config

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// patrol is [daemon] while it is read.
type patrol struct {
	spec.Patrol
	limit limit
}

func daemonTable() table[patrol] {
	return table[patrol]{
		header: "[daemon]",
		doc: "How the daemon keeps the fleet as this file says, and the default limit of agents. An agent that " +
			"states no limit (`max_restarts`, `restart_window`, `on_limit`) is quarantined " +
			"after `max_restarts` starts within `restart_window`. Its first start counts; a restart for a change " +
			"of the file, and a run that lasted for a minute and ended with exit code 0, do not. A start by a " +
			"person begins a fresh window. A quarantine ends by itself when the window has room again. " +
			"Where a limit is stated for the supervisor of an agent, in `[[supervisor]]` or `[supervision]`, its " +
			"restarts count there instead. For agents directly under the root, `max_restarts` and " +
			"`restart_window` of this table go first.",
		example: `[daemon]
patrol_interval = "30s"
max_restarts = 20
restart_window = "1h"
shutdown_timeout = "5s"
`,
		keys: []key[patrol]{
			{row{name: "patrol_interval", typ: "duration", def: "30s", doc: "the time between two rounds, 10ms at " +
				"least. What happens, such as the end of an agent, does not wait for a round",
				also: []string{"interval", "tick", "tick_interval"}},
				func(r *reader, v *value, into *patrol) {
					d, ok := r.duration(v)
					switch {
					case ok && d < spec.MinPatrolInterval:
						r.fail(v.at, v, "", "patrol_interval is %v, expected at least %v", d, spec.MinPatrolInterval)
					case ok:
						into.Interval = d
					}
				}},
			{row{name: "max_restarts", typ: maxType, def: "20", doc: "starts of one agent within `restart_window`, " +
				"the first one included, before it is quarantined. `0` is the same as `\"unlimited\"`",
				also: []string{"intensity", "max_retries", "retries"}},
				func(r *reader, v *value, into *patrol) {
					r.maxRestarts(v, &into.limit)
					if m := into.limit.max; m != nil && *m == 0 {
						*m = supervisor.Unlimited
					}
				}},
			window("restart_window", "1h", "the window in which starts count",
				func(p *patrol) *limit { return &p.limit }),
			{row{name: "shutdown_timeout", typ: durationOrZeroType, def: "5s", doc: "how long an agent that states " +
				"no `grace` of its own has to end when the fleet, or a supervisor by hand, is stopped; all are " +
				"asked at once. With `\"0s\"` all are killed at once. See [Lifecycle](lifecycle.md)",
				also: []string{"stop_timeout", "grace"}},
				func(r *reader, v *value, into *patrol) {
					if d, ok := r.durationOrZero(v); ok {
						into.ShutdownTimeout = d
					}
				}},
			{row{name: "drift_drain_timeout", typ: "duration", def: "2m", doc: "how long an agent that is no " +
				"longer as this file says may take to finish what it does, before it is restarted as it says",
				also: []string{"drain_timeout"}},
				duration(func(p *patrol) *time.Duration { return &p.DriftDrainTimeout })},
			{row{name: "max_parallel_starts", typ: "integer", def: "8",
				doc:  fmt.Sprintf("how many agents are being started at a time, 1 to %d", spec.MaxStarts),
				also: []string{"max_wakes_per_tick", "parallel_starts", "concurrency"}},
				func(r *reader, v *value, into *patrol) {
					if n, ok := r.integer(v, 1, spec.MaxStarts,
						fmt.Sprintf("an integer from 1 to %d", spec.MaxStarts)); ok {
						into.Starts = int(n)
					}
				}},
			{row{name: "max_claims", typ: "integer", def: "3", doc: "how many claims of a task may fail before it " +
				"is parked, as [Tasks](tasks.md) says. `0`: it never is", also: []string{"max_attempts", "max_tries"}},
				func(r *reader, v *value, into *patrol) {
					if n, ok := r.integer(v, 0, spec.MaxClaims,
						fmt.Sprintf("an integer from 0 to %d", spec.MaxClaims)); ok {
						into.MaxClaims = int(n)
					}
				}},
			{row{name: "gc_interval", typ: "duration", doc: "the time between two purges of records of work that " +
				"are closed. Nothing is purged unless `ttl` is there, too", also: []string{"purge_interval"}},
				duration(func(p *patrol) *time.Duration { return &p.GCInterval })},
			{row{name: "ttl", typ: "duration", doc: "how long such a record is kept after it has " +
				"been closed, as in `\"7d\"`", also: []string{"retention"}},
				duration(func(p *patrol) *time.Duration { return &p.TTL })},
			seedSpelling("wisp_gc_interval", "gc_interval", func(p *patrol) *time.Duration { return &p.GCInterval }),
			seedSpelling("wisp_ttl", "ttl", func(p *patrol) *time.Duration { return &p.TTL }),
		},
	}
}

// seedSpelling is a key of Gas City that has a plainer name here.
func seedSpelling(name, plain string, field func(*patrol) *time.Duration) key[patrol] {
	return key[patrol]{row{name: name, typ: "duration", doc: "another spelling of `" + plain + "`"},
		func(r *reader, v *value, into *patrol) {
			if v.parent.byName[plain] != nil {
				r.fail(v.key, v, "remove one of the two", "%s beside %s, which mean the same, expected one of them",
					name, plain)
				return
			}
			duration(field)(r, v, into)
		}}
}

// apply gives the defaults to agents that state no limit or no backoff. An agent
// keeps no limit of its own where a limit is stated for the supervisor it is in:
// its restarts count there. Instances of pools always have their own.
func (p *patrol) apply(agents []agent, supervisors []group, supervision limit) {
	p.Limit = p.limit.over(supervisor.ScopeChild, supervisor.Quarantine)
	above := map[string]limit{} // what is stated for the supervisor of an agent, by the agent's name
	for i := range supervisors {
		g := &supervisors[i]
		for _, name := range g.children {
			above[name] = g.limit.or(supervision)
		}
	}
	for i := range agents {
		a := &agents[i]
		if a.backoff == nil {
			a.Backoff, a.DefaultBackoff = spec.DefaultBackoff(), true
		}
		stated, named := above[a.Name]
		if !named && p.limit == (limit{}) {
			stated = supervision
		}
		if a.limit == (limit{}) && (a.pool != nil || stated == limit{}) {
			a.Limit, a.DefaultLimit = p.Limit, true
		}
	}
}

const suspendedDoc = "it is not started, and stopped if it runs, until this is `false` again"

// suspendedKey is the key of what can be suspended.
func suspendedKey[T any](doc string, field func(*T) *bool) key[T] {
	return key[T]{row{name: "suspended", typ: "boolean", def: "false", doc: doc,
		also: []string{"disabled", "paused"}}, flag(field)}
}
