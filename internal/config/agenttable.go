package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func agentTable() toml.Table[agent] {
	of := func(a *agent) *setting.Limit { return &a.limit }
	return toml.Table[agent]{
		Header: "[[agent]]",
		Doc:    "An agent is an OS process in a process group of its own.",
		Example: `[[agent]]
name = "worker"
command = ["python3", "worker.py", "--queue", "mail"]
dir = "services/worker"
env = { LOG_LEVEL = "info" }
restart = "on-failure"
backoff = "exponential"
max_restarts = 10
restart_window = "1h"
`,
		Keys: append([]toml.Key[agent]{
			{Name: "name", Type: "string", Default: toml.Required, Unless: "aidefile",
				Doc: "unique in the file; the last segment of its path", Also: []string{"id"},
				Read: toml.Text(func(a *agent) *string { return &a.Name })},
			{Name: "command", Type: "string or array of strings", Default: toml.Required, Unless: "aidefile",
				Doc: "what to run. An array is run as it is. A string of plain words is split at spaces; any " +
					"other string is run by `/bin/sh -c`, with `exec` in front if it is a single command: then " +
					"no shell remains. A program with `/` is relative to `dir`, any other is looked up in the " +
					"agent's `PATH`",
				Also: []string{"cmd", "exec", "run", "start_command", "args", "argv"},
				Read: setting.CommandKey(func(a *agent) *[]string { return &a.Command })},
			setting.CLI(agentcli.CLIs(), "found out from `command`",
				"the command line of a language model whose output that of the agent is, for a script that calls one; "+
					"`plain` for none. How the agent has ended is read from its output, and it shares an account "+
					"with others, see [Quotas](quotas.md)",
				func(a *agent) *agentcli.CLI { return &a.CLI }),
			{Name: "aidefile", Type: "string", Doc: "the path of an Aidefile, or of its directory, relative to " +
				"the file: the agent runs when its triggers fire, see [Aidefiles](aidefile.md). It replaces " +
				"`command` and everything that says how the agent is restarted; the default of `name` is that of " +
				"its persona", Also: []string{"aide"}, Read: readAidefileKey},
			{Name: "dir", Type: "string", Default: "the directory of the file",
				Doc:  "the working directory, relative to the file",
				Also: []string{"cwd", "workdir", "working_dir", "work_dir", "directory"},
				Read: func(r *toml.Reader, v *toml.Value, into *agent) {
					if dir, ok := r.Text(v, "a path"); ok {
						into.Dir = dir
					}
				}},
			{Name: "env", Type: "table of strings",
				Doc: "variables in addition to the few that every agent gets; names that start with `COPPICE_` " +
					"are reserved",
				Also: []string{"environment"},
				Read: toml.StringMap("a table of strings", func(a *agent) *map[string]string { return &a.Env })},
			{Name: "env_file", Type: "string or array of strings",
				Doc: "files with more variables, one `KEY=VALUE` a line, relative to the directory of this file; " +
					"later ones take precedence, and `env` over all. They are read at each start; a change of their " +
					"content restarts the agent. See [Environment files](files.md#environment-files)",
				Also: []string{"env_files", "envfile", "environment_file", "dotenv"}, Read: readEnvFiles},
			{Name: "files", Type: "array of strings",
				Doc: "files that it reads when it starts, relative to `dir`: a change of their content restarts it, " +
					"like a change of the project's file. See [The patrol](patrol.md)",
				Also: []string{"file", "copy_files", "watch_files", "config_files"},
				Read: toml.List("an array of paths", func(a *agent) *[]string { return &a.Files })},
			{Name: "stdin", Type: "string", Default: `"null"`,
				Doc:  "standard input: `\"null\"` for nothing, else the path of a file, relative to `dir`",
				Also: []string{"input"},
				Read: func(r *toml.Reader, v *toml.Value, into *agent) {
					if stdin, ok := r.Text(v, `"null" or a path`); ok && stdin != "null" {
						into.Stdin = stdin
					}
				}},
			{Name: "runtime", Type: "proc, tmux", Default: "proc", Doc: "where it runs: `proc` is a process with " +
				"pipes or a terminal, which costs little; `tmux` is a session in the project's own tmux server, " +
				"for working in it interactively. Both outlive the daemon. See [Runtimes and limits](runtimes.md)",
				Also: []string{"provider", "backend", "session"},
				Read: toml.Name(func(a *agent) *spec.Runtime { return &a.Runtime })},
			{Name: "terminal", Type: "boolean", Default: "false", Doc: "a terminal instead of pipes, for " +
				"programs that need one and for `coppice attach`; always true in tmux. Standard input is the " +
				"terminal, too; only in tmux can `stdin` name a file instead", Also: []string{"tty", "pty"},
				Read: func(r *toml.Reader, v *toml.Value, into *agent) {
					toml.Bool(func(a *agent) *bool { return &a.Terminal })(r, v, into)
					if v.Kind == toml.KindBool && !into.Terminal {
						into.noTerminal = v
					}
				}},
			{Name: "limits", Type: "table", Doc: "what it may use at most, see `[agent.limits]`",
				Also: []string{"resources", "rlimits", "ulimits"},
				Read: toml.Sub(limitsTable(), func(a *agent) *spec.Limits { return &a.Limits })},
			{Name: "logs", Type: "table", Doc: "how much of its output is kept, see `[agent.logs]`",
				Also: []string{"log", "logging"},
				Read: toml.Sub(agentLogsTable(), func(a *agent) *spec.Logs { return &a.Logs })},
			{Name: "user", Type: "string", Default: "that of the daemon", Doc: "the user that runs the agent and " +
				"its own commands (`ready.exec`, hooks, nudges, checks), by name or number. Only if the daemon " +
				"runs as root, on Linux, and not with tmux, `stdin`, `env_file` or `aidefile`. See [Another " +
				"user](agents.md#another-user)", Also: []string{"uid", "run_as", "username", "as"},
				Read: toml.Text(func(a *agent) *string { return &a.User })},
			{Name: "group", Type: "string", Default: "that of the user", Doc: "the group of the agent instead of " +
				"the primary group of `user`, by name or number; the other groups of the user stay",
				Also: []string{"gid"},
				Read: toml.Text(func(a *agent) *string { return &a.Group })},
			{Name: "no_new_privileges", Type: "boolean", Default: "false", Doc: "keeps the agent, what it starts " +
				"and its own commands (`ready.exec`, hooks, nudges, checks) from gaining privileges: `sudo`, " +
				"`su` and other set-user-ID programs have no effect. Linux only. See [What an agent may " +
				"do](agents.md#what-an-agent-may-do)", Also: []string{"no_new_privs", "nonewprivileges",
				"noprivileges"},
				Read: toml.Bool(func(a *agent) *bool { return &a.NoNewPrivileges })},
			{Name: "read_write_paths", Type: "array of strings", Doc: "the only directories and files that the " +
				"agent, what it starts and its own commands (`ready.exec`, hooks, nudges, checks) may write to, " +
				"relative to `dir`; `~/` is its home directory. The kernel enforces that. A path must exist, " +
				"unless it begins with `-`. Linux 6.2 or later, with `runtime = \"proc\"` and no `aidefile`. See " +
				"[Where agents may write](confinement.md)", Also: []string{"readwritepaths", "writable_paths",
				"writable", "write_paths", "allow_write", "sandbox"},
				Read: toml.List("an array of paths", func(a *agent) *[]string { return &a.ReadWritePaths })},
			{Name: "read_only_paths", Type: "array of strings", Doc: "exceptions below `read_write_paths`, " +
				"written in the same way. A directory that contains one gets no new entries; one that does not " +
				"exist cannot be created", Also: []string{"readonlypaths", "protected_paths", "protected",
				"deny_write"},
				Read: toml.List("an array of paths", func(a *agent) *[]string { return &a.ReadOnlyPaths })},
			{Name: "restart", Type: restartType, Default: "always", Doc: restartDoc,
				Also: []string{"restart_policy", "autorestart"},
				Read: setting.Restart(func(a *agent) *supervisor.Restart { return &a.Restart })},
			{Name: "backoff", Type: "none, fixed, linear, exponential, or table", Default: "exponential",
				Doc: "the delay before a restart, see `[agent.backoff]`", Also: []string{"delay", "restart_delay"},
				Read: readBackoff},
			setting.MaxRestarts("that of `[daemon]`", "the agent's own limit. With none of `max_restarts`, "+
				"`restart_window` and `on_limit`, it is that of its supervisor where one is "+
				"stated, else that of `[daemon]`", of),
			setting.Window("restart_window", "that of `on_limit`", "the window in which starts count: 1h for "+
				"`quarantine`, 1m for `escalate`, 5m for `pause`, none for `give_up`", of),
			setting.OnLimit("quarantine", onLimitDoc+". What counts differs: starts (the first one included), "+
				"restarts in a row (`give_up`), restarts (`escalate`), failures (`pause`); so do the defaults of "+
				"`max_restarts`: 20, 10, 5, 3", of),
			{Name: "shutdown", Type: "table", Doc: "how it is asked to stop, see `[agent.shutdown]`",
				Also: []string{"stop"},
				Read: toml.Sub(shutdownTable(), func(a *agent) *spec.Shutdown { return &a.Shutdown })},
			{Name: "ready", Type: "table", Doc: "how it reports that it has started, see `[agent.ready]`",
				Also: []string{"readiness", "healthcheck", "health"}, Read: readReady},
			{Name: "heartbeat_timeout", Type: "duration", Doc: "how long it may send no heartbeat once it is " +
				"ready, see [Agents](agents.md): then it is checked, nudged, and restarted as after a failure",
				Also: []string{"liveness", "heartbeat", "heartbeat_interval", "watchdog_sec"},
				Read: toml.Duration(func(a *agent) *time.Duration { return &a.HeartbeatTimeout })},
			{Name: "progress_timeout", Type: "duration",
				Doc:  "how long it may report the same progress, or none, before the same happens",
				Also: []string{"progress", "stall_timeout", "stuck_timeout", "progress_deadline"},
				Read: toml.Duration(func(a *agent) *time.Duration { return &a.ProgressTimeout })},
			{Name: "idle_timeout", Type: "duration", Doc: "how long it may neither write nor be written to, once " +
				"it is ready; then it is restarted as after a failure. An agent that waits for a person may be " +
				"idle. See [Lifecycle](lifecycle.md)",
				Also: []string{"idle", "inactivity_timeout", "idle_after", "max_idle"},
				Read: toml.Duration(func(a *agent) *time.Duration { return &a.IdleTimeout })},
			{Name: "process_names", Type: "array of strings", Doc: "the programs that the agent consists of, as " +
				"in `[\"claude\", \"node\"]`, if it runs below a shell or a wrapper that may outlive it. When " +
				"none of them is running, the agent has crashed: its last output is kept, and it is restarted. " +
				"See [Lifecycle](lifecycle.md)", Also: []string{"processes", "process", "programs"},
				Read: toml.List("an array of names", func(a *agent) *[]string { return &a.ProcessNames })},
			{Name: "nudge", Type: "table", Doc: "how it is reminded, see `[agent.nudge]`",
				Also: []string{"wake", "poke", "remind"}, Read: readNudge},
			{Name: "pool", Type: "table", Doc: "makes the agent a pool: as many instances as are wanted, see " +
				"`[agent.pool]`", Also: []string{"scale", "scaling", "replicas", "instances"},
				Read: func(r *toml.Reader, v *toml.Value, into *agent) {
					into.pool = new(pool)
					poolTable().Read(r, v, into.pool)
				}},
			{Name: "pipeline", Type: "table", Doc: "makes the agent a worker of a pipeline for tasks, see " +
				"`[agent.pipeline]`", Also: []string{"workflow", "stages"},
				Read: func(r *toml.Reader, v *toml.Value, into *agent) {
					into.pipeline = newPipeline(v)
					pipelineTable().Read(r, v, into.pipeline)
				}},
			hookKey("", "on_waking", "what to run before each incarnation, when its beliefs are available; if it "+
				"fails, so does the start. See `[agent.on_waking]`",
				func(a *agent) *spec.Hook { return &a.Hooks.Waking }, "pre_start",
				"exec_start_pre", "prestart"),
			hookKey("", "on_start", "what to run when an incarnation is ready, before siblings that wait for it are "+
				"started; if it fails, so does the start, and the agent is stopped",
				func(a *agent) *spec.Hook { return &a.Hooks.Start }, "post_start", "exec_start_post", "poststart"),
			hookKey("", "on_resting", "what to run before the agent is sent its stop signal, at each stop except "+
				"with `KILL`; not when it exits on its own",
				func(a *agent) *spec.Hook { return &a.Hooks.Resting }, "on_stop",
				"pre_stop", "prestop", "exec_stop"),
			hookKey("", "on_error", "what to run when an incarnation has failed or could not be started, before the "+
				"supervisor decides what is next", func(a *agent) *spec.Hook { return &a.Hooks.Error }, "on_failure",
				"on_crash"),
			{Name: "beliefs", Type: "table", Doc: "the values that it keeps, see `[agent.beliefs]`",
				Also: []string{"state", "memory", "values"}, Read: readBeliefs},
			{Name: "notify", Type: "boolean", Default: "false", Doc: "lets it report its status as systemd " +
				"services do (`sd_notify`): it gets a `NOTIFY_SOCKET`, and its status is shown. `ready = { " +
				"notify = true }` and `watchdog` imply that. See [What services say of themselves](sd-notify.md)",
				Also: []string{"sd_notify", "sdnotify"},
				Read: toml.Bool(func(a *agent) *bool { return &a.Notify })},
			{Name: "watchdog", Type: "duration", Doc: "the longest time from one `WATCHDOG=1` to the next, at " +
				"least 1s, which the agent finds in `WATCHDOG_USEC`. An agent that takes longer has failed: it " +
				"gets `SIGABRT`, after its grace period `SIGKILL`, and is restarted",
				Also: []string{"watchdog_sec", "watchdogsec"},
				Read: toml.Duration(func(a *agent) *time.Duration { return &a.Watchdog })},
			{Name: "significant", Type: "boolean", Default: "false", Doc: signifDoc,
				Read: toml.Bool(func(a *agent) *bool { return &a.Significant })},
			suspendedKey(suspendedDoc, func(a *agent) *bool { return &a.Suspended }),
			dependsOn("before this one is started, and stopped after it",
				func(a *agent) *[]string { return &a.DependsOn }),
		}, placementKeys()...),
	}
}

// readEnvFiles reads one path, or several, of files with environment variables.
func readEnvFiles(r *toml.Reader, v *toml.Value, into *agent) {
	into.EnvFiles = nil
	elements := v.Elements
	if v.Kind == toml.KindString {
		elements = []*toml.Value{v}
	} else if !r.Want(v, toml.KindArray, "a path or an array of paths") {
		return
	}
	for _, e := range elements {
		if file, ok := r.Text(e, "a path"); ok {
			into.EnvFiles = append(into.EnvFiles, file)
		}
	}
}

// dependsOn returns the key depends_on of an agent or supervisor.
func dependsOn[T any](when string, field func(*T) *[]string) toml.Key[T] {
	return toml.Key[T]{Name: "depends_on", Type: "array of strings",
		Doc: "names of agents and supervisors that must be ready " + when +
			"; one in a supervisor depends on what that depends on, too, and a supervisor is ready when all " +
			"agents in it are. See [Lifecycle](lifecycle.md)",
		Also: []string{"after", "requires", "needs", "depends", "wants", "dependencies", "dependson"},
		Read: toml.List("an array of names", field)}
}

// resolve makes the paths of an agent absolute.
func (a *agent) resolve(project string) {
	a.Dir = toml.Absolute(project, a.Dir)
	if a.Stdin != "" {
		a.Stdin = toml.Absolute(a.Dir, a.Stdin)
	}
	for i, file := range a.EnvFiles {
		a.EnvFiles[i] = toml.Absolute(project, file)
	}
	for _, paths := range [][]string{a.ReadWritePaths, a.ReadOnlyPaths} {
		for i, path := range paths {
			paths[i] = a.writePath(path)
		}
	}
	for i, file := range a.Files {
		if file != "" { // Assemble reports an empty one
			a.Files[i] = toml.Absolute(a.Dir, file)
		}
	}
}

// writePath makes a path of read_write_paths or read_only_paths absolute. Assemble reports an empty
// one.
func (a *agent) writePath(path string) string {
	path, optional := landlock.Optional(path)
	if path == "" {
		return ""
	}
	if below, ok := strings.CutPrefix(path+"/", "~/"); ok {
		if home := a.home(); home != "" {
			path = filepath.Join(home, below)
		}
	}
	path = toml.Absolute(a.Dir, path)
	if optional {
		path = "-" + path
	}
	return path
}

// home returns the HOME of the agent, or "" if it is not known.
func (a *agent) home() string {
	if home, ok := a.Env["HOME"]; ok {
		return home
	}
	if a.User == "" {
		return os.Getenv("HOME")
	}
	user, err := account.Find(a.User, a.Group)
	if err != nil { // reported by ondisk
		return ""
	}
	return user.Home
}
