package config

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// file is a coppice.toml while it is read.
type file struct {
	root        spec.Node
	limit       limit       // of [supervision], the default of all supervisors
	recall      spec.Recall // of [supervision]: persist
	patrol      patrol
	aide        *aidefile.Settings
	persistence spec.Persistence
	database    *value // path of [persistence]
	retention   spec.Retention
	logs        spec.Logs
	program     *value // of [project]
	supervisors []group
	agents      []agent
	standing    standing
}

// group is a [[supervisor]] while it is read.
type group struct {
	spec.Node
	children []string
	limit    limit
	table    *value
}

// agent is an [[agent]] while it is read.
type agent struct {
	spec.Agent
	limit   limit
	backoff *value // as the file states it, or nil
	pool    *pool
	pipes   *value // terminal = false, where it says so
	table   *value

	aidefile *value // where it says which
}

func fileTable() table[file] {
	supervisors, agents := supervisorTable(), agentTable()
	return table[file]{
		doc: "The whole file. Its tables may come in any order; that of supervisors and agents is their order " +
			"under the root; with a strategy of the root other than `one_for_one`, it is their start order.",
		keys: []key[file]{
			elsewhere("include", "array of strings", "other files that belong to this one, as paths or patterns "+
				"such as `\"agents/*.toml\"`, relative to this file. See [Files](files.md)", "includes", "import",
				"imports"),
			{row{name: "project", typ: "table", doc: "the project itself", also: []string{"workspace"}},
				sub(projectTable(), func(f *file) *file { return f })},
			{row{name: "supervision", typ: "table", doc: "the root, and defaults of all supervisors",
				also: []string{"supervise"}}, sub(supervisionTable(), func(f *file) *file { return f })},
			{row{name: "daemon", typ: "table", doc: "how the daemon keeps the fleet as this file says",
				also: []string{"patrol", "controller"}},
				sub(daemonTable(), func(f *file) *patrol { return &f.patrol })},
			{row{name: "aide", typ: "table", doc: "how the agents of Aidefiles run",
				also: []string{"aidefile", "aides"}},
				func(r *reader, v *value, f *file) {
					settings := aidefile.DefaultSettings("")
					f.aide = &settings
					aideTable().read(r, v, f.aide)
				}},
			{row{name: "persistence", typ: "table", doc: "where state is kept", also: []string{"store", "state"}},
				sub(persistenceTable(), func(f *file) *file { return f })},
			{row{name: "logs", typ: "table", doc: "how much output is kept of agents",
				also: []string{"log", "logging", "output"}},
				sub(allLogsTable(), func(f *file) *spec.Logs { return &f.logs })},
			{row{name: "supervisor", typ: "array of tables", doc: "a supervisor below the root",
				also: []string{"supervisors"}}, tables("supervisor",
				func(r *reader, v *value, f *file) {
					f.supervisors = append(f.supervisors, group{table: v})
					supervisors.read(r, v, &f.supervisors[len(f.supervisors)-1])
				})},
			{row{name: "orders", typ: "table", doc: "what holds for all orders"},
				sub(ordersTable(), func(f *file) *standing { return &f.standing })},
			{row{name: "order", typ: "array of tables", doc: "an order: a command or task that waits for its gates",
				also: []string{"job", "cron", "schedule", "timer"}}, tables("order",
				func(_ *reader, v *value, f *file) { f.standing.all = append(f.standing.all, orderForm{table: v}) })},
			{row{name: "agent", typ: "array of tables", doc: "an agent: a process that is kept running",
				also: []string{"agents", "program", "process", "service"}}, tables("agent",
				func(r *reader, v *value, f *file) {
					a := agent{table: v}
					agents.read(r, v, &a)
					if a.Runtime == spec.Tmux && a.pipes != nil {
						r.fail(a.pipes.at, a.pipes, "remove it",
							"terminal is false, expected true where runtime is tmux: there is always one")
					}
					f.agents = append(f.agents, a)
				})},
			elsewhere("patches", "table", "changes of what is declared elsewhere, see `[[patches.agent]]`", "patch",
				"overrides"),
		},
	}
}

// elsewhere is a key of the file that has been dealt with before its tables are read.
func elsewhere(name, typ, doc string, also ...string) key[file] {
	return key[file]{row{name: name, typ: typ, doc: doc, also: also}, func(*reader, *value, *file) {}}
}

// tables is the read function of an array of tables.
func tables(name string, read func(*reader, *value, *file)) func(*reader, *value, *file) {
	return func(r *reader, v *value, f *file) {
		if v.kind == isTable {
			r.fail(v.key, v, "write [["+name+"]]", "%s is a single table, expected an array of tables", name)
			return
		}
		if !r.want(v, isArray, "an array of tables") {
			return
		}
		for _, e := range v.elements {
			if r.want(e, isTable, "a table") {
				read(r, e, f)
			}
		}
	}
}

func projectTable() table[file] {
	return table[file]{
		header: "[project]",
		doc:    "The project as a whole.",
		example: `[project]
name = "shop"
`,
		keys: []key[file]{
			{row{name: "name", typ: "string", def: "the name of the directory",
				doc: "the first segment of every path, as in `shop/backend/api`; 1 to 64 bytes without `/`"},
				text(func(f *file) *string { return &f.root.Name })},
			programKey(),
			suspendedKey("the whole fleet is suspended: "+suspendedDoc,
				func(f *file) *bool { return &f.root.Suspended }),
		},
	}
}

const (
	strategyType = "one_for_one, one_for_all, rest_for_one"
	strategyDoc  = "which children are restarted when one fails: it alone, all of them, it and those after it"
	restartType  = "always, on-failure, never"
	restartDoc   = "`always` restarts after every end, `on-failure` after failures, `never` not at all; " +
		"`permanent`, `transient` and `temporary` mean the same"
	autoType = "never, any_significant, all_significant, when_done"
	autoDoc  = "when it ends by itself: with the first or the last significant child that ended for good, or " +
		"when nothing below it runs or will run again"
	signifDoc  = "takes part in the `auto_shutdown` of its supervisor; needs `restart` other than `always`"
	onLimitDoc = "`escalate` stops the children and fails, so that the parent's strategy applies; `quarantine` " +
		"waits until the window has room again; `give_up` waits for a reset; `pause` starts nothing " +
		"more until it is resumed"
)

func supervisionTable() table[file] {
	of := func(f *file) *limit { return &f.limit }
	return table[file]{
		header: "[supervision]",
		doc: "The root supervisor. Its limit (`max_restarts`, `within_seconds`, `on_limit`) is also the default of " +
			"every `[[supervisor]]`; its strategy is not. A supervisor that sets another `on_limit` has the " +
			"default numbers of that one: 20 in 1h for `quarantine`, 10 for `give_up`, 3 in 5m for `pause`. " +
			"The root quarantines: an agent or supervisor directly under it that reaches its limit is held back, " +
			"and everything else goes on. With `on_limit = \"escalate\"` here, the root ends instead, and " +
			"the whole fleet with it.",
		example: `[supervision]
strategy = "one_for_one"
on_limit = "escalate"
max_restarts = 5
within_seconds = 60
`,
		keys: []key[file]{
			maxRestarts("20 for the root, 5 for other supervisors", "for the root, starts of one child within the "+
				"window; for other supervisors, restarts of their children", of),
			windowSeconds("60 for `escalate`, else that of `on_limit`", of),
			onLimit("quarantine for the root, escalate for other supervisors", onLimitDoc, of),
			{row{name: "strategy", typ: strategyType, def: "one_for_one", doc: strategyDoc},
				word(supervisor.ParseStrategy, func(f *file) *supervisor.Strategy { return &f.root.Strategy })},
			{row{name: "auto_shutdown", typ: autoType, def: "never", doc: autoDoc},
				word(parseAutoShutdown, func(f *file) *supervisor.AutoShutdown { return &f.root.AutoShutdown })},
			{row{name: "persist", typ: "boolean", def: "all but quarantines", doc: "what a new daemon keeps of " +
				"restart counters, delays, quarantines and give-ups. Not set: all of them, except for agents whose " +
				"limit is `quarantine`. `true`: all of them. `false`: none. An agent that was held back by what is " +
				"not kept starts at once, with fresh counters. Stops and pauses by people are kept in any case. " +
				"See [daemon.md](daemon.md#limits-and-decisions)", also: []string{"persistent", "remember"}},
				func(r *reader, v *value, into *file) {
					persist := true
					flag(func(p *bool) *bool { return p })(r, v, &persist)
					into.recall = map[bool]spec.Recall{true: spec.RecallAll, false: spec.RecallNothing}[persist]
				}},
		},
	}
}

func supervisorTable() table[group] {
	of := func(g *group) *limit { return &g.limit }
	return table[group]{
		header: "[[supervisor]]",
		doc: "A supervisor starts its children in order, watches them, restarts them by its strategy and stops " +
			"them in reverse order. Supervisors nest by naming supervisors as children, up to 8 levels with the " +
			"root. What no supervisor names hangs under the root.",
		example: `[[supervisor]]
name = "backend"
strategy = "rest_for_one"
children = ["db", "api"]
max_restarts = 3
within = "30s"

[[agent]]
name = "db"
command = "./db.sh"

[[agent]]
name = "api"
command = "./api.sh --port 8080"
`,
		keys: []key[group]{
			{row{name: "name", typ: "string", def: required, doc: "unique in the file; a segment of paths",
				also: []string{"id"}}, text(func(g *group) *string { return &g.Name })},
			{row{name: "children", typ: "array of strings", def: required,
				doc: "names of agents and supervisors, in start order", also: []string{"agents", "members"}},
				func(r *reader, v *value, into *group) {
					if children, ok := r.list(v, "an array of names"); ok {
						into.children = children
					}
				}},
			{row{name: "strategy", typ: strategyType, def: "one_for_one", doc: strategyDoc},
				word(supervisor.ParseStrategy, func(g *group) *supervisor.Strategy { return &g.Strategy })},
			maxRestarts("as in `[supervision]`", "restarts of its children, within the window; "+
				"one more reaches the limit", of),
			window("within", "as in `[supervision]`", "the window in which restarts count", of),
			onLimit("as in `[supervision]`", onLimitDoc+". `quarantine` and `give_up` count for each child by itself",
				of),
			{row{name: "restart", typ: restartType, def: "always",
				doc: "the supervisor as a child of its parent: " + restartDoc},
				word(supervisor.ParseRestart, func(g *group) *supervisor.Restart { return &g.Restart }, restartMeant)},
			{row{name: "auto_shutdown", typ: autoType, def: "never", doc: autoDoc},
				word(parseAutoShutdown, func(g *group) *supervisor.AutoShutdown { return &g.AutoShutdown })},
			{row{name: "significant", typ: "boolean", def: "false", doc: signifDoc},
				flag(func(g *group) *bool { return &g.Significant })},
			suspendedKey("all below it is suspended: "+suspendedDoc, func(g *group) *bool { return &g.Suspended }),
			dependsOn("before anything in this supervisor is started, and stopped after all of it",
				func(g *group) *[]string { return &g.DependsOn }),
		},
	}
}

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
			{row{name: "name", typ: "string", def: required, doc: "unique in the file; the last segment of its path",
				also: []string{"id"}}, text(func(a *agent) *string { return &a.Name })},
			{row{name: "command", typ: "string or array of strings", def: required,
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

func parseAutoShutdown(text string) (supervisor.AutoShutdown, error) {
	for a := supervisor.NeverShutdown; a <= supervisor.WhenDone; a++ {
		if a.String() == text {
			return a, nil
		}
	}
	return 0, fmt.Errorf("unknown auto_shutdown %q", text)
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

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
