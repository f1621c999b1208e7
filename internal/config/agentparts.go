package config

import (
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func backoffTable() table[supervisor.Backoff] {
	return table[supervisor.Backoff]{
		header: "[agent.backoff]",
		doc: "The delay before a restart. It grows with the number of restarts in a row and starts again from " +
			"`base` after a success. `backoff = \"linear\"` stands for a table with that `kind` alone.",
		example: `[[agent]]
name = "crawler"
command = "./crawl.sh"
backoff = { kind = "exponential", base = "1s", cap = "5m", jitter = true }
`,
		keys: []key[supervisor.Backoff]{
			{row{name: "kind", typ: "none, fixed, linear, exponential", def: "exponential",
				doc:  "no delay; always `base`; 1, 2, 3 times `base`; 1, 2, 4 times `base`",
				also: []string{"type", "strategy"}},
				word(supervisor.ParseBackoffKind,
					func(b *supervisor.Backoff) *supervisor.BackoffKind { return &b.Kind })},
			{row{name: "base", typ: "duration", def: "1s", doc: "the first delay",
				also: []string{"delay", "initial", "min"}},
				duration(func(b *supervisor.Backoff) *time.Duration { return &b.Base })},
			{row{name: "cap", typ: "duration", def: "1m, or `base` if that is longer", doc: "the longest delay",
				also: []string{"max", "maximum", "limit"}},
				duration(func(b *supervisor.Backoff) *time.Duration { return &b.Cap })},
			{row{name: "jitter", typ: "boolean", def: "true for exponential, else false",
				doc: "draws each delay evenly from 0 to what it would be, so that agents that failed together " +
					"do not come back together"}, flag(func(b *supervisor.Backoff) *bool { return &b.Jitter })},
			{row{name: "stable_after", typ: durationOrNeverType, def: "1m", doc: "how long an agent must live to " +
				"count as a success; a clean exit counts as one, too, except where the limit counts " +
				"starts, as it does by default", also: []string{"reset_after"}},
				func(r *reader, v *value, into *supervisor.Backoff) {
					if v.kind == isString && v.text == "never" {
						into.StableAfter = -1
					} else if d, ok := r.duration(v); ok {
						into.StableAfter = d
					}
				}},
		},
	}
}

// backoff reads a kind alone or a table.
func (r *reader) backoff(v *value, into *agent) {
	b := &into.Backoff
	into.backoff, b.Kind = v, supervisor.Exponential
	if v.kind == isTable {
		backoffTable().read(r, v, b)
	} else {
		word(supervisor.ParseBackoffKind, func(b *supervisor.Backoff) *supervisor.BackoffKind { return &b.Kind })(r,
			v, b)
	}
	if b.Kind == supervisor.NoBackoff {
		return
	}
	def := spec.DefaultBackoff()
	if v.kind != isTable || v.byName["cap"] == nil {
		b.Cap = max(def.Cap, b.Base)
	}
	if v.kind != isTable || v.byName["jitter"] == nil {
		b.Jitter = b.Kind == supervisor.Exponential
	}
}

func shutdownTable() table[spec.Shutdown] {
	return table[spec.Shutdown]{
		header: "[agent.shutdown]",
		doc: "How an agent is stopped: the signal goes to its whole process group. All of the group has the " +
			"grace period, also when its first process, a shell for example, has ended. SIGKILL to what is left " +
			"then. See [Lifecycle](lifecycle.md).",
		example: `[[agent]]
name = "db"
command = "./db.sh"
shutdown = { signal = "INT", grace = "10s" }
`,
		keys: []key[spec.Shutdown]{
			{row{name: "signal", typ: "string", def: "TERM", doc: "`TERM`, `INT`, `HUP`, `QUIT`, `USR1`, `USR2`, " +
				"`ABRT`, `ALRM`, `PIPE`, `WINCH`, with or without `SIG`; `KILL` ends it without asking",
				also: []string{"stopsignal", "stop_signal"}},
				text(func(s *spec.Shutdown) *string { return &s.Signal })},
			{row{name: "grace", typ: "duration", def: "5s", doc: "how long it may take",
				also: []string{"timeout", "grace_period", "stopwaitsecs"}},
				duration(func(s *spec.Shutdown) *time.Duration { return &s.Grace })},
		},
	}
}

func readyTable() table[spec.Ready] {
	return table[spec.Ready]{
		header: "[agent.ready]",
		doc: "How an agent shows that it has started: exactly one condition. Siblings that come after it wait " +
			"for that, and an agent that is not ready in time has failed. Without this table, an agent is ready " +
			"when its process exists.",
		example: `[[agent]]
name = "api"
command = "./api.sh"
ready = { http = "http://localhost:8080/health", timeout = "20s" }

[[agent]]
name = "db"
command = "./db.sh"
ready = { log = "ready to accept connections" }
`,
		keys: []key[spec.Ready]{
			{row{name: "log", typ: "string", doc: "a regular expression (RE2) that a line of the output matches",
				also: []string{"line", "pattern", "output"}}, text(func(r *spec.Ready) *string { return &r.Log })},
			{row{name: "tcp", typ: "string",
				doc:  "a `host:port` at which a process of the agent accepts a connection",
				also: []string{"port", "address"}}, text(func(r *spec.Ready) *string { return &r.TCP })},
			{row{name: "http", typ: "string", doc: "a URL at which a process of the agent answers with a status " +
				"from 200 to 299; redirects are not followed", also: []string{"url", "https", "httpget"}},
				text(func(r *spec.Ready) *string { return &r.HTTP })},
			{row{name: "exec", typ: "string or array of strings",
				doc: "a command, written as `command` is, that exits with 0", also: []string{"command", "cmd"}},
				commandKey(func(r *spec.Ready) *[]string { return &r.Exec })},
			{row{name: "notify", typ: "boolean", def: "false",
				doc: "the agent says so itself, as systemd services do (`sd_notify`)"},
				flag(func(r *spec.Ready) *bool { return &r.Notify })},
			{row{name: "timeout", typ: "duration", def: "30s", doc: "how long it may take"},
				duration(func(r *spec.Ready) *time.Duration { return &r.Timeout })},
		},
	}
}

// ready reads the table and sees to it that there is a condition in it.
func (r *reader) ready(v *value, into *agent) {
	before := len(r.errs)
	readyTable().read(r, v, &into.Ready)
	if c := into.Ready; len(r.errs) == before && c.Log == "" && c.TCP == "" && c.HTTP == "" && len(c.Exec) == 0 &&
		!c.Notify {
		r.fail(v.at, v, "", "ready has no condition, expected one of log, tcp, http, exec, notify")
	}
}
