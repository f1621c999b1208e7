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
	table *value // nil if there is none
}

func daemonTable() table[patrol] {
	return table[patrol]{
		header: "[daemon]",
		doc: "How the daemon keeps the fleet as this file says. An agent that no supervisor names and that has no limit of its own (`max_restarts`, `restart_window`, `on_limit`) is held back in a crash loop by this limit, " +
			"by itself: it has `max_restarts` starts within `restart_window`, the first one included; then it is quarantined until the window has room again, and starts by itself. " +
			"That is so if this table has `max_restarts` or `restart_window`, or if there is this table and `[supervision]` states no limit. Otherwise such agents count in the root, which ends when its limit is reached.",
		example: `[daemon]
patrol_interval = "30s"
max_restarts = 5
restart_window = "1h"
shutdown_timeout = "5s"
`,
		keys: []key[patrol]{
			{row{name: "patrol_interval", typ: "duration", def: "30s", doc: "the time between two rounds, 10ms at least. What happens, such as the end of an agent, does not wait for a round", also: []string{"interval", "tick", "tick_interval"}},
				func(r *reader, v *value, into *patrol) {
					d, ok := r.duration(v)
					switch {
					case ok && d < spec.MinPatrolInterval:
						r.fail(v.at, v, "", "patrol_interval is %v, expected at least %v", d, spec.MinPatrolInterval)
					case ok:
						into.Interval = d
					}
				}},
			{row{name: "max_restarts", typ: maxType, def: "5", doc: "starts of one agent within `restart_window`, the first one included, before it is quarantined. `0` is the same as `\"unlimited\"`", also: []string{"intensity", "max_retries", "retries"}},
				func(r *reader, v *value, into *patrol) {
					r.maxRestarts(v, &into.limit)
					if m := into.limit.max; m != nil && *m == 0 {
						*m = supervisor.Unlimited
					}
				}},
			window("restart_window", "1h", "the window in which starts count", func(p *patrol) *limit { return &p.limit }),
			{row{name: "shutdown_timeout", typ: durationOrZeroType, def: "5s", doc: "how long an agent that states no `grace` of its own has to end when the fleet, or a supervisor by hand, is stopped; all are asked at once. With `\"0s\"` all are killed at once. See [Lifecycle](lifecycle.md)", also: []string{"stop_timeout", "grace"}},
				func(r *reader, v *value, into *patrol) {
					if d, ok := r.durationOrZero(v); ok {
						into.ShutdownTimeout = d
					}
				}},
			{row{name: "drift_drain_timeout", typ: "duration", def: "2m", doc: "how long an agent that is no longer as this file says may take to finish what it does, before it is restarted as it says", also: []string{"drain_timeout"}},
				duration(func(p *patrol) *time.Duration { return &p.DriftDrainTimeout })},
			{row{name: "max_parallel_starts", typ: "integer", def: "8", doc: fmt.Sprintf("how many agents are being started at a time, 1 to %d", spec.MaxStarts), also: []string{"max_wakes_per_tick", "parallel_starts", "concurrency"}},
				func(r *reader, v *value, into *patrol) {
					if n, ok := r.integer(v, 1, spec.MaxStarts, fmt.Sprintf("an integer from 1 to %d", spec.MaxStarts)); ok {
						into.Starts = int(n)
					}
				}},
			{row{name: "gc_interval", typ: "duration", doc: "the time between two purges of records of work that are closed. Nothing is purged unless `ttl` is there, too", also: []string{"purge_interval"}},
				duration(func(p *patrol) *time.Duration { return &p.GCInterval })},
			{row{name: "ttl", typ: "duration", doc: "how long such a record is kept after it has been closed, as in `\"7d\"`", also: []string{"retention"}},
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
				r.fail(v.key, v, "remove one of the two", "%s beside %s, which mean the same, expected one of them", name, plain)
				return
			}
			duration(field)(r, v, into)
		}}
}

// settle makes what [daemon] says, in the light of the limit of [supervision],
// the patrol of the tree.
func (p *patrol) settle(supervision limit) {
	p.Limit = p.limit.over(supervisor.ScopeChild, supervisor.Quarantine)
	p.Kept = p.table != nil && (p.limit != limit{} || supervision == limit{})
}

// keep gives the agents that the patrol keeps its limit. Instances of pools
// have it in any case: one that fails all the time must not bring down the others.
func (p *patrol) keep(agents []agent, supervisors []group) {
	for i := range agents {
		if a := &agents[i]; a.limit == (limit{}) && a.pool != nil {
			a.Limit = p.Limit
		}
	}
	if !p.Kept {
		return
	}
	named := map[string]bool{}
	for i := range supervisors {
		for _, name := range supervisors[i].children {
			named[name] = true
		}
	}
	for i := range agents {
		if a := &agents[i]; a.limit == (limit{}) && !named[a.Name] {
			a.Limit = p.Limit
		}
	}
}

const suspendedDoc = "it is not started, and stopped if it runs, until this is `false` again"

// suspendedKey is the key of what can be suspended.
func suspendedKey[T any](doc string, field func(*T) *bool) key[T] {
	return key[T]{row{name: "suspended", typ: "boolean", def: "false", doc: doc, also: []string{"disabled", "paused"}}, flag(field)}
}
