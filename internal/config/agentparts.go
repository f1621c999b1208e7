package config

import (
	"strconv"
	"strings"
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
				Also: []string{"type", "strategy"}, Read: toml.Name(backoffKind)},
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
			{Name: "stable_after", Type: toml.DurationOrNeverType, Default: "1m",
				Doc: "how long an agent must run to count as a success. A clean exit counts as one, too, except " +
					"where the limit counts starts, which is the default", Also: []string{"reset_after"},
				Read: toml.DurationOrNever(func(b *supervisor.Backoff) *time.Duration { return &b.StableAfter })},
		},
	}
}

func backoffKind(b *supervisor.Backoff) *supervisor.BackoffKind { return &b.Kind }

// readBackoff reads the name of a kind, or a table.
func readBackoff(r *toml.Reader, v *toml.Value, into *agent) {
	b := &into.Backoff
	into.backoff, b.Kind = v, supervisor.Exponential
	if v.Kind == toml.KindTable {
		backoffTable().Read(r, v, b)
	} else {
		toml.Name(backoffKind)(r, v, b)
	}
	if b.Kind == supervisor.NoBackoff {
		return
	}
	if v.Field("cap") == nil {
		b.Cap = max(spec.DefaultBackoff().Cap, b.Base)
	}
	if v.Field("jitter") == nil {
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
			{Name: "log", Type: "string", Doc: "a regular expression (RE2) that a line of the output matches",
				Also: []string{"line", "pattern", "output"},
				Read: toml.Text(func(r *spec.Ready) *string { return &r.Log })},
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

// readReady reads the table and reports one without a condition.
func readReady(r *toml.Reader, v *toml.Value, into *agent) {
	before := r.Count()
	readyTable().Read(r, v, &into.Ready)
	if r.Count() == before && !into.Ready.IsSet() {
		r.Fail(v, "", "ready has no condition, expected one of log, tcp, http, exec, notify")
	}
}

func nudgeTable() toml.Table[spec.Nudge] {
	return toml.Table[spec.Nudge]{
		Header: "[agent.nudge]",
		Doc: "How an agent is reminded when it sends no heartbeat or there is work for it: exactly one way. See " +
			"[Agents](agents.md).",
		Example: `[[agent]]
name = "writer"
command = "./write.sh"
heartbeat_timeout = "2m"
progress_timeout = "30m"
nudge = { signal = "USR1" }
`,
		Keys: []toml.Key[spec.Nudge]{
			{Name: "type", Type: "boolean", Default: "false", Doc: "a fixed line and Enter are typed into its " +
				"terminal, unless a person is attached and may be typing. Only with `terminal` or in tmux",
				Read: toml.Bool(func(n *spec.Nudge) *bool { return &n.Type })},
			{Name: "signal", Type: "string", Doc: "a signal to its process, as in `[agent.shutdown]`, but not " +
				"`KILL`. An agent that does not handle it ends", Also: []string{"kill"},
				Read: toml.Text(func(n *spec.Nudge) *string { return &n.Signal })},
			{Name: "command", Type: "string or array of strings", Doc: "a command, written as `command` is, with " +
				"the directory and the environment of the agent but without its token, and the reason in " +
				"`COPPICE_NUDGE`. It runs on the node of the agent, and may take 10s",
				Also: []string{"exec", "cmd", "run"},
				Read: setting.CommandKey(func(n *spec.Nudge) *[]string { return &n.Command })},
		},
	}
}

// readNudge reads the table and reports one without a way to nudge.
func readNudge(r *toml.Reader, v *toml.Value, into *agent) {
	before := r.Count()
	nudgeTable().Read(r, v, &into.Nudge)
	if r.Count() == before && !into.Nudge.Exists() {
		r.Fail(v, "", "nudge is empty, expected one of type, signal, command")
	}
}

func limitsTable() toml.Table[spec.Limits] {
	return toml.Table[spec.Limits]{
		Header: "[agent.limits]",
		Doc: "What an agent may use at most. Without a key only the limit of the system applies. " +
			"[Runtimes and limits](runtimes.md) says what each limit covers and what happens when it is reached.",
		Example: `[[agent]]
name = "indexer"
command = "./index.sh"
limits = { memory = "2GiB", open_files = 4096, processes = 200 }
`,
		Keys: []toml.Key[spec.Limits]{
			{Name: "memory", Type: "size", Doc: "at least 1 MiB",
				Also: []string{"mem", "max_memory", "memory_max", "memory_limit", "ram"},
				Read: toml.Size(1, "1 byte", func(l *spec.Limits) *int64 { return &l.Memory })},
			{Name: "cpu", Type: "number", Doc: "cores: `0.5` is half of one, `2` is two",
				Also: []string{"cpus", "cores", "cpu_limit", "cpu_quota"},
				Read: readCores},
			{Name: "open_files", Type: "integer", Doc: "file descriptors of each process",
				Also: []string{"nofile", "files", "max_open_files", "fds"},
				Read: toml.Int(1, spec.MaxCount, func(l *spec.Limits) *uint64 { return &l.OpenFiles })},
			{Name: "processes", Type: "integer", Doc: "processes and threads",
				Also: []string{"nproc", "pids", "tasks", "threads", "max_processes"},
				Read: toml.Int(1, spec.MaxCount, func(l *spec.Limits) *uint64 { return &l.Processes })},
		},
	}
}

// readCores reads a number of cores above zero.
func readCores(r *toml.Reader, v *toml.Value, into *spec.Limits) {
	const expected = "a number of cores such as 0.5 or 2"
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
	switch {
	case v.Kind == toml.KindInteger:
		whole, _ := r.Integer(v, 1, spec.MaxCPU, expected)
		into.CPU = float64(whole)
	case v.Kind == toml.KindString && err == nil:
		r.Fail(v, "write "+v.Text+" without quotes", "%s is %v, expected %s", r.Label(v), v.Kind, expected)
	case !r.Want(v, toml.KindFloat, expected):
	case err != nil || !(n > 0):
		r.Fail(v, "", "%s is %s, expected %s", r.Label(v), v.Text, expected)
	default:
		into.CPU = n // Assemble checks the bounds
	}
}

// logsTable returns the table [logs] or [agent.logs].
func logsTable(header, doc, example string, sizeDefault, keepDefault string) toml.Table[spec.Logs] {
	return toml.Table[spec.Logs]{
		Header: header, Doc: doc, Example: example,
		Keys: []toml.Key[spec.Logs]{
			{Name: "max_size", Type: "size", Default: sizeDefault, Doc: "how large a log file becomes before it " +
				"is rotated, at least 1 KiB: `output.log` becomes `output.log.1`, which becomes `output.log.2`, " +
				"and so on. It is rotated between two lines",
				Also: []string{"size", "max-size", "maxsize", "rotate_size", "max_bytes"},
				Read: toml.Size(spec.MinLogSize, "1 KiB", func(l *spec.Logs) *int64 { return &l.MaxSize })},
			{Name: "keep", Type: "integer", Default: keepDefault,
				Doc:  "how many rotated files are kept, 1 to 100, in addition to the current one",
				Also: []string{"max_file", "max-file", "max_files", "rotate", "backups", "max_backups", "count"},
				Read: toml.Int(1, spec.MaxLogFiles, func(l *spec.Logs) *int { return &l.Keep })},
		},
	}
}

func allLogsTable() toml.Table[spec.Logs] {
	return logsTable("[logs]",
		"How much output is kept of each agent. An agent that runs keeps to what held when it was started. "+
			"[Logs](logs.md) says where it is and how it is read.",
		`[logs]
max_size = "50MB"
keep = 5
`, "10MiB", "3")
}

func agentLogsTable() toml.Table[spec.Logs] {
	return logsTable("[agent.logs]", "How much output is kept of one agent.", `[[agent]]
name = "builder"
command = "./build.sh"
logs = { max_size = "100MB", keep = 10 }
`, "that of `[logs]`", "that of `[logs]`")
}
