package config

import (
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func agentTable() table[agent] {
	of := func(a *agent) *limit { return &a.limit }
	return table[agent]{
		header: "[[agent]]",
		doc:    "An agent is an OS process in a process group of its own.",
		example: `[[agent]]
name = "worker"
command = ["python3", "worker.py", "--queue", "mail"]
dir = "services/worker"
env = { LOG_LEVEL = "info" }
restart = "on-failure"
backoff = "exponential"
max_restarts = 10
restart_window = "1h"
`,
		keys: []key[agent]{
			{row{name: "name", typ: "string", def: required, unless: "aidefile",
				doc: "unique in the file; the last segment of its path", also: []string{"id"}},
				text(func(a *agent) *string { return &a.Name })},
			{row{name: "command", typ: "string or array of strings", def: required, unless: "aidefile",
				doc: "what to run. An array is run as it is. A string of plain words is split at spaces; any " +
					"other is run by `/bin/sh -c`, with `exec` in front if it is a single command, so that no " +
					"shell stays behind. A program with `/` is relative to `dir`, any other is looked " +
					"up in the agent's `PATH`",
				also: []string{"cmd", "exec", "run", "start_command", "args", "argv"}},
				commandKey(func(a *agent) *[]string { return &a.Command })},
			{row{name: "aidefile", typ: "string", doc: "the path of an Aidefile, or of its directory, relative to " +
				"the file: the agent runs when its triggers fire, see [Aidefiles](aidefile.md). It takes the place " +
				"of `command` and of all that says how it is restarted; `name` is that of its " +
				"persona unless it is there", also: []string{"aide"}}, (*reader).aidefile},
			{row{name: "dir", typ: "string", def: "the directory of the file",
				doc:  "the working directory, relative to the file",
				also: []string{"cwd", "workdir", "working_dir", "work_dir", "directory"}},
				func(r *reader, v *value, into *agent) {
					if dir, ok := r.text(v, "a path"); ok {
						into.Dir = dir
					}
				}},
			{row{name: "env", typ: "table of strings",
				doc:  "variables beside the few that every agent gets; names in `COPPICE_` are Coppice's own",
				also: []string{"environment"}}, (*reader).env},
			envFileKey(),
			filesKey(),
			{row{name: "stdin", typ: "string", def: `"null"`,
				doc:  "standard input: `\"null\"` for nothing, else the path of a file, relative to `dir`",
				also: []string{"input"}},
				func(r *reader, v *value, into *agent) {
					if stdin, ok := r.text(v, `"null" or a path`); ok && stdin != "null" {
						into.Stdin = stdin
					}
				}},
			{row{name: "runtime", typ: "proc, tmux", def: "proc", doc: "where it runs: `proc` is a process with " +
				"pipes or a terminal, which costs little; `tmux` is a session of the project's own tmux server, to " +
				"sit in with all that tmux offers. Both outlive the daemon. See [The daemon](daemon.md)",
				also: []string{"provider", "backend", "session"}},
				word(spec.ParseRuntime, func(a *agent) *spec.Runtime { return &a.Runtime })},
			{row{name: "terminal", typ: "boolean", def: "false", doc: "a terminal instead of pipes, for programs " +
				"that want one and for `coppice attach`; always true in tmux. Standard input is the terminal, too; " +
				"only in tmux can `stdin` name a file instead", also: []string{"tty", "pty"}},
				func(r *reader, v *value, into *agent) {
					flag(func(a *agent) *bool { return &a.Terminal })(r, v, into)
					if v.kind == isBool && !into.Terminal {
						into.pipes = v
					}
				}},
			{row{name: "limits", typ: "table", doc: "what it may use at most, see `[agent.limits]`",
				also: []string{"resources", "rlimits", "ulimits"}},
				sub(limitsTable(), func(a *agent) *spec.Limits { return &a.Limits })},
			{row{name: "logs", typ: "table", doc: "how much of its output is kept, see `[agent.logs]`",
				also: []string{"log", "logging"}}, sub(agentLogsTable(), func(a *agent) *spec.Logs { return &a.Logs })},
			{row{name: "user", typ: "string", def: "that of the daemon", doc: "the user that the agent and its own " +
				"commands (`ready.exec`, hooks, nudges, checks) run as, by name or number. Only where the daemon " +
				"runs as root, on Linux, and not in tmux, with `stdin`, `env_file` or `aidefile`. See [Another " +
				"user](agents.md#another-user)", also: []string{"uid", "run_as", "username", "as"}},
				text(func(a *agent) *string { return &a.User })},
			{row{name: "group", typ: "string", def: "that of the user", doc: "the group of the agent instead of " +
				"the first one of `user`, by name or number; the others of the user stay", also: []string{"gid"}},
				text(func(a *agent) *string { return &a.Group })},
			{row{name: "no_new_privileges", typ: "boolean", def: "false", doc: "keeps the agent, what it starts " +
				"and its own commands (`ready.exec`, hooks, nudges, checks) from gaining privileges: `sudo`, `su` " +
				"and other set-user-ID programs do nothing special for them. Linux only. See [What an agent may " +
				"do](agents.md#what-an-agent-may-do)", also: []string{"no_new_privs", "nonewprivileges",
				"noprivileges"}},
				flag(func(a *agent) *bool { return &a.NoNewPrivileges })},
			{row{name: "restart", typ: restartType, def: "always", doc: restartDoc,
				also: []string{"restart_policy", "autorestart"}},
				word(supervisor.ParseRestart, func(a *agent) *supervisor.Restart { return &a.Restart }, restartMeant)},
			{row{name: "backoff", typ: "none, fixed, linear, exponential, or table", def: "exponential",
				doc: "the delay before a restart, see `[agent.backoff]`", also: []string{"delay", "restart_delay"}},
				(*reader).backoff},
			maxRestarts("that of `[daemon]`", "the agent's own limit. With none of `max_restarts`, "+
				"`restart_window` and `on_limit`, it is that of its supervisor where one is "+
				"stated, else that of `[daemon]`", of),
			window("restart_window", "that of `on_limit`", "the window in which starts count: 1h for `quarantine`, "+
				"1m for `escalate`, 5m for `pause`, none for `give_up`", of),
			onLimit("quarantine", onLimitDoc+". What counts differs: starts (the first one included), restarts in "+
				"a row (`give_up`), restarts (`escalate`), failures (`pause`); so do the defaults of "+
				"`max_restarts`: 20, 10, 5, 3", of),
			{row{name: "shutdown", typ: "table", doc: "how it is asked to stop, see `[agent.shutdown]`",
				also: []string{"stop"}}, sub(shutdownTable(), func(a *agent) *spec.Shutdown { return &a.Shutdown })},
			{row{name: "ready", typ: "table", doc: "how it shows that it has started, see `[agent.ready]`",
				also: []string{"readiness", "healthcheck", "health"}}, (*reader).ready},
			{row{name: "heartbeat_timeout", typ: "duration", doc: "how long it may say nothing, once it is ready, " +
				"see [Agents](agents.md): then it is looked at, nudged, and restarted as after a failure",
				also: []string{"liveness", "heartbeat", "heartbeat_interval", "watchdog_sec"}},
				duration(func(a *agent) *time.Duration { return &a.HeartbeatTimeout })},
			{row{name: "progress_timeout", typ: "duration",
				doc:  "the same for how long it may claim the same progress, or none",
				also: []string{"progress", "stall_timeout", "stuck_timeout", "progress_deadline"}},
				duration(func(a *agent) *time.Duration { return &a.ProgressTimeout })},
			{row{name: "idle_timeout", typ: "duration", doc: "how long it may neither write nor be written to, " +
				"once it is ready; if it takes longer, it is restarted as after a failure. One that waits for a " +
				"person may. See [Lifecycle](lifecycle.md)",
				also: []string{"idle", "inactivity_timeout", "idle_after", "max_idle"}},
				duration(func(a *agent) *time.Duration { return &a.IdleTimeout })},
			{row{name: "process_names", typ: "array of strings", doc: "the programs that the agent consists of, as " +
				"in `[\"claude\", \"node\"]`, where it runs below a shell or a wrapper that may outlive it: when " +
				"none of them runs any more, it has crashed, its last output is kept, and it is restarted. See " +
				"[Lifecycle](lifecycle.md)", also: []string{"processes", "process", "programs"}},
				func(r *reader, v *value, into *agent) {
					if names, ok := r.list(v, "an array of names"); ok {
						into.ProcessNames = names
					}
				}},
			{row{name: "nudge", typ: "table", doc: "how it is reminded, see `[agent.nudge]`",
				also: []string{"wake", "poke", "remind"}}, (*reader).nudge},
			{row{name: "pool", typ: "table", doc: "makes a pool of it: as many instances as are " +
				"wanted, see `[agent.pool]`", also: []string{"scale", "scaling", "replicas", "instances"}},
				(*reader).readPool},
			hookKey("on_waking", "what to run before each incarnation, when its beliefs are there; the start fails "+
				"with it. See `[agent.on_waking]`", func(h *spec.Hooks) *spec.Hook { return &h.Waking }, "pre_start",
				"exec_start_pre", "prestart"),
			hookKey("on_start", "what to run when an incarnation is ready, before siblings that wait for it are "+
				"started; the start fails with it, and the agent is stopped",
				func(h *spec.Hooks) *spec.Hook { return &h.Start }, "post_start", "exec_start_post", "poststart"),
			hookKey("on_resting", "what to run before the agent is sent its stop signal, at each stop but one with "+
				"`KILL`; not when it ends by itself", func(h *spec.Hooks) *spec.Hook { return &h.Resting }, "on_stop",
				"pre_stop", "prestop", "exec_stop"),
			hookKey("on_error", "what to run when an incarnation has ended as a failure or could not be started, "+
				"before what comes next is decided", func(h *spec.Hooks) *spec.Hook { return &h.Error }, "on_failure",
				"on_crash"),
			{row{name: "beliefs", typ: "table", doc: "the values that it keeps, see `[agent.beliefs]`",
				also: []string{"state", "memory", "values"}}, (*reader).beliefs},
			{row{name: "notify", typ: "boolean", def: "false", doc: "lets it speak of itself as systemd services " +
				"do (`sd_notify`): it is given a `NOTIFY_SOCKET`, and what it says is shown. `ready = { notify = " +
				"true }` and `watchdog` imply that. See [What services say of themselves](notify.md)",
				also: []string{"sd_notify", "sdnotify"}},
				flag(func(a *agent) *bool { return &a.Notify })},
			{row{name: "watchdog", typ: "duration", doc: "how long it may take from one `WATCHDOG=1` to the next, " +
				"1s at least; it is told so in `WATCHDOG_USEC`. One that takes longer has failed: it gets " +
				"`SIGABRT`, after its grace `SIGKILL`, and is restarted",
				also: []string{"watchdog_sec", "watchdogsec"}},
				duration(func(a *agent) *time.Duration { return &a.Watchdog })},
			{row{name: "significant", typ: "boolean", def: "false", doc: signifDoc},
				flag(func(a *agent) *bool { return &a.Significant })},
			suspendedKey(suspendedDoc, func(a *agent) *bool { return &a.Suspended }),
			dependsOn("before this one is started, and stopped after it",
				func(a *agent) *[]string { return &a.DependsOn }),
		},
	}
}

// resolve makes the paths of an agent absolute.
func (a *agent) resolve(project string) {
	a.Dir = under(project, a.Dir)
	if a.Stdin != "" {
		a.Stdin = under(a.Dir, a.Stdin)
	}
	for i, file := range a.EnvFiles {
		a.EnvFiles[i] = under(project, file)
	}
	for i, file := range a.Files {
		if file != "" { // else it is told what is wrong
			a.Files[i] = under(a.Dir, file)
		}
	}
}
