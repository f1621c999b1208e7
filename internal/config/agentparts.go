package config

import (
	"time"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func backoffTable() toml.Table[supervisor.Backoff] {
	return toml.Table[supervisor.Backoff]{
		Header: "[agent.backoff]",
		Doc: "The delay before a restart. It grows with the number of restarts in a row and starts again from " +
			"`base` after a success. `backoff = \"linear\"` is short for a table with only that `kind`.",
		Example: `[[agent]]
name = "crawler"
command = "./crawl.sh"
backoff = { kind = "exponential", base = "1s", cap = "5m", jitter = true }
`,
		Keys: []toml.Key[supervisor.Backoff]{
			{Name: "kind", Type: "none, fixed, linear, exponential", Default: "exponential",
				Doc:  "no delay; always `base`; 1, 2, 3 times `base`; 1, 2, 4 times `base`",
				Also: []string{"type", "strategy"},
				Read: toml.Word(supervisor.ParseBackoffKind,
					func(b *supervisor.Backoff) *supervisor.BackoffKind { return &b.Kind })},
			{Name: "base", Type: "duration", Default: "1s", Doc: "the first delay",
				Also: []string{"delay", "initial", "min"},
				Read: toml.Duration(func(b *supervisor.Backoff) *time.Duration { return &b.Base })},
			{Name: "cap", Type: "duration", Default: "1m, or `base` if that is longer", Doc: "the longest delay",
				Also: []string{"max", "maximum", "limit"},
				Read: toml.Duration(func(b *supervisor.Backoff) *time.Duration { return &b.Cap })},
			{Name: "jitter", Type: "boolean", Default: "true for exponential, else false",
				Doc: "draws each delay evenly from 0 to its length, so that agents that failed together do not " +
					"restart together",
				Read: toml.Bool(func(b *supervisor.Backoff) *bool { return &b.Jitter })},
			{
				Name:    "stable_after",
				Type:    toml.DurationOrNeverType,
				Default: "1m",
				Doc: "how long an agent must run to count as a success. A clean exit counts as one, too, except " +
					"where the limit counts starts, which is the default",
				Also: []string{"reset_after"},
				Read: func(r *toml.Reader, v *toml.Value, into *supervisor.Backoff) {
					if v.Kind == toml.KindString && v.Text == "never" {
						into.StableAfter = -1
					} else if d, ok := r.Duration(v); ok {
						into.StableAfter = d
					}
				},
			},
		},
	}
}

// readBackoff reads a kind alone or a table.
func readBackoff(r *toml.Reader, v *toml.Value, into *agent) {
	b := &into.Backoff
	into.backoff, b.Kind = v, supervisor.Exponential
	if v.Kind == toml.KindTable {
		backoffTable().Read(r, v, b)
	} else {
		toml.Word(
			supervisor.ParseBackoffKind,
			func(b *supervisor.Backoff) *supervisor.BackoffKind { return &b.Kind },
		)(
			r,
			v,
			b,
		)
	}
	if b.Kind == supervisor.NoBackoff {
		return
	}
	def := spec.DefaultBackoff()
	if v.Kind != toml.KindTable || v.Field("cap") == nil {
		b.Cap = max(def.Cap, b.Base)
	}
	if v.Kind != toml.KindTable || v.Field("jitter") == nil {
		b.Jitter = b.Kind == supervisor.Exponential
	}
}

func shutdownTable() toml.Table[spec.Shutdown] {
	return toml.Table[spec.Shutdown]{
		Header: "[agent.shutdown]",
		Doc: "How an agent is stopped: the signal goes to its whole process group. The whole group has the grace " +
			"period, even when its first process, a shell for example, has exited. What is left then gets " +
			"SIGKILL. See [Lifecycle](lifecycle.md).",
		Example: `[[agent]]
name = "db"
command = "./db.sh"
shutdown = { signal = "INT", grace = "10s" }
`,
		Keys: []toml.Key[spec.Shutdown]{
			{Name: "signal", Type: "string", Default: "TERM", Doc: "`TERM`, `INT`, `HUP`, `QUIT`, `USR1`, " +
				"`USR2`, `ABRT`, `ALRM`, `PIPE`, `WINCH`, with or without `SIG`; `KILL` kills it without warning",
				Also: []string{"stopsignal", "stop_signal"},
				Read: toml.Text(func(s *spec.Shutdown) *string { return &s.Signal })},
			{Name: "grace", Type: "duration", Default: "5s", Doc: "how long it may take to exit",
				Also: []string{"timeout", "grace_period", "stopwaitsecs"},
				Read: toml.Duration(func(s *spec.Shutdown) *time.Duration { return &s.Grace })},
		},
	}
}

func readyTable() toml.Table[spec.Ready] {
	return toml.Table[spec.Ready]{
		Header: "[agent.ready]",
		Doc: "How an agent reports that it has started: exactly one condition. Siblings that come after it wait " +
			"for that, and an agent that is not ready in time has failed. Without this table, an agent is ready " +
			"when its process exists.",
		Example: `[[agent]]
name = "api"
command = "./api.sh"
ready = { http = "http://localhost:8080/health", timeout = "20s" }

[[agent]]
name = "db"
command = "./db.sh"
ready = { log = "ready to accept connections" }
`,
		Keys: []toml.Key[spec.Ready]{
			{
				Name: "log",
				Type: "string",
				Doc:  "a regular expression (RE2) that a line of the output matches",
				Also: []string{
					"line",
					"pattern",
					"output",
				},
				Read: toml.Text(func(r *spec.Ready) *string { return &r.Log }),
			},
			{Name: "tcp", Type: "string",
				Doc:  "a `host:port` at which a process of the agent accepts a connection",
				Also: []string{"port", "address"}, Read: toml.Text(func(r *spec.Ready) *string { return &r.TCP })},
			{Name: "http", Type: "string", Doc: "a URL at which a process of the agent answers with a status " +
				"from 200 to 299; redirects are not followed", Also: []string{"url", "https", "httpget"},
				Read: toml.Text(func(r *spec.Ready) *string { return &r.HTTP })},
			{Name: "exec", Type: "string or array of strings",
				Doc: "a command, written as `command` is, that exits with 0", Also: []string{"command", "cmd"},
				Read: setting.CommandKey(func(r *spec.Ready) *[]string { return &r.Exec })},
			{Name: "notify", Type: "boolean", Default: "false",
				Doc:  "the agent reports it, as systemd services do (`sd_notify`)",
				Read: toml.Bool(func(r *spec.Ready) *bool { return &r.Notify })},
			{Name: "timeout", Type: "duration", Default: "30s", Doc: "how long it may take",
				Read: toml.Duration(func(r *spec.Ready) *time.Duration { return &r.Timeout })},
		},
	}
}

// readReady reads the table and sees to it that there is a condition in it.
func readReady(r *toml.Reader, v *toml.Value, into *agent) {
	before := r.Count()
	readyTable().Read(r, v, &into.Ready)
	if c := into.Ready; r.Count() == before && c.Log == "" && c.TCP == "" && c.HTTP == "" && len(c.Exec) == 0 &&
		!c.Notify {
		r.Fail(v, "", "ready has no condition, expected one of log, tcp, http, exec, notify")
	}
}
