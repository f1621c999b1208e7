package config

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/notify"
	"github.com/coppice-dev/coppice/internal/config/orders"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/config/traces"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// file is a coppice.toml while it is read.
type file struct {
	root        spec.Node
	limit       setting.Limit      // of [supervision]; the default of all supervisors
	recall      spec.RestorePolicy // of [supervision]: persist
	patrol      patrol
	aide        *aidefile.Settings
	persistence spec.Persistence
	database    *toml.Value // path of [persistence]
	retention   spec.Retention
	logs        spec.Logs
	program     *toml.Value // of [project]
	supervisors []group
	agents      []*agent
	orders      orders.Settings
	quotas      []quotaForm
	budgets     []budgetForm
	services    []serviceForm
	notify      []notify.Form
	deadman     notify.DeadmanForm
	otlp        spec.OTLP
	metrics     spec.Metrics
	web         spec.Web
	traces      traces.Form
}

// group is a [[supervisor]] while it is read.
type group struct {
	spec.Node
	children []string
	limit    setting.Limit
	table    *toml.Value
}

// agent is an [[agent]] while it is read.
type agent struct {
	spec.Agent
	limit    setting.Limit
	backoff  *toml.Value // the value in the file, or nil
	pool     *pool
	pipeline *pipelineForm
	table    *toml.Value

	noTerminal *toml.Value // terminal = false
	aidefile   *toml.Value // the path of its Aidefile
}

func itself[T any](t *T) *T { return t }

func fileTable() toml.Table[file] {
	supervisors, agents, quotas, budgets := supervisorTable(), agentTable(), quotaTable(), budgetTable()
	services, notifications := serviceTable(), notify.Table()
	return toml.Table[file]{
		Doc: "The whole file. Its tables may come in any order. The order of supervisors and agents is their " +
			"order under the root; if the strategy of the root is not `one_for_one`, it is their start order.",
		Keys: []toml.Key[file]{
			readEarlier("include", "array of strings", "other files that belong to this one, as paths or patterns "+
				"such as `\"agents/*.toml\"`, relative to this file. See [Files](files.md)", "includes", "import",
				"imports"),
			{Name: "project", Type: "table", Doc: "the project itself", Also: []string{"workspace"},
				Read: toml.Sub(projectTable(), itself[file])},
			{Name: "supervision", Type: "table", Doc: "the root supervisor, and defaults of all supervisors",
				Also: []string{"supervise"}, Read: toml.Sub(supervisionTable(), itself[file])},
			{Name: "daemon", Type: "table", Doc: "how the daemon runs the fleet",
				Also: []string{"patrol", "controller"},
				Read: toml.Sub(daemonTable(), func(f *file) *patrol { return &f.patrol })},
			{Name: "aide", Type: "table", Doc: "how the agents of Aidefiles run",
				Also: []string{"aidefile", "aides"},
				Read: func(r *toml.Reader, v *toml.Value, f *file) {
					settings := aidefile.DefaultSettings("")
					f.aide = &settings
					aideTable().Read(r, v, f.aide)
					if command := agentcli.Command(f.aide.CLI); command != nil && v.Field("command") == nil {
						f.aide.Command = command
					}
				}},
			{Name: "persistence", Type: "table", Doc: "where state is kept", Also: []string{"store", "state"},
				Read: toml.Sub(persistenceTable(), itself[file])},
			{Name: "logs", Type: "table", Doc: "how much output of agents is kept",
				Also: []string{"log", "logging", "output"},
				Read: toml.Sub(allLogsTable(), func(f *file) *spec.Logs { return &f.logs })},
			{Name: "supervisor", Type: "array of tables", Doc: "a supervisor below the root",
				Also: []string{"supervisors"}, Read: tables(func(r *toml.Reader, v *toml.Value, f *file) {
					g := group{table: v}
					supervisors.Read(r, v, &g)
					f.supervisors = append(f.supervisors, g)
				})},
			{Name: "orders", Type: "table", Doc: "settings of all orders",
				Read: toml.Sub(orders.Table(), func(f *file) *orders.Settings { return &f.orders })},
			{Name: "order", Type: "array of tables", Doc: "an order: a command or task that starts when its " +
				"gates open",
				Also: []string{"job", "cron", "schedule", "timer"},
				Read: tables(func(_ *toml.Reader, v *toml.Value, f *file) {
					f.orders.Add(v)
				})},
			{Name: "agent", Type: "array of tables", Doc: "an agent: a process that is kept running",
				Also: []string{"agents", "program", "process"},
				Read: tables(func(r *toml.Reader, v *toml.Value, f *file) {
					a := &agent{table: v}
					agents.Read(r, v, a)
					if a.Runtime == spec.Tmux && a.noTerminal != nil {
						r.Fail(a.noTerminal, "remove it",
							"terminal is false, expected true where runtime is tmux: there is always one")
					}
					f.agents = append(f.agents, a)
				})},
			{Name: "quota", Type: "array of tables", Doc: "an account of a command line of a language model, and the " +
				"agents that use it",
				Also: []string{"quotas", "account", "accounts", "subscription", "limit"},
				Read: tables(func(r *toml.Reader, v *toml.Value, f *file) {
					q := quotaForm{table: v}
					quotas.Read(r, v, &q)
					f.quotas = append(f.quotas, q)
				})},
			{Name: "budget", Type: "array of tables", Doc: "what agents may use",
				Also: []string{"budgets", "spending", "cap"},
				Read: tables(func(r *toml.Reader, v *toml.Value, f *file) {
					b := budgetForm{Budget: spec.Budget{Per: spec.PerDay}, table: v}
					budgets.Read(r, v, &b)
					f.budgets = append(f.budgets, b)
				})},
			{Name: "service", Type: "array of tables", Doc: "something outside of the project that tasks wait " +
				"for while it is down",
				Also: []string{"services", "dependency", "external_service"},
				Read: tables(func(r *toml.Reader, v *toml.Value, f *file) {
					s := serviceForm{table: v}
					services.Read(r, v, &s)
					f.services = append(f.services, s)
				})},
			{Name: "notify", Type: "array of tables", Doc: "a way by which people are told when they are needed",
				Also: []string{"notifications", "notification", "alert", "alerts", "notifier"},
				Read: tables(func(r *toml.Reader, v *toml.Value, f *file) {
					n := notify.Form{Table: v}
					notifications.Read(r, v, &n)
					f.notify = append(f.notify, n)
				})},
			{Name: "deadman", Type: "table", Doc: "a service that tells people when the daemon no longer works",
				Also: []string{"dead_man", "heartbeat", "healthcheck", "ping"},
				Read: func(r *toml.Reader, v *toml.Value, f *file) {
					f.deadman.Table = v
					notify.DeadmanTable().Read(r, v, &f.deadman)
				}},
			{Name: "otlp", Type: "table", Doc: "a receiver for what command lines of language models export",
				Also: []string{"otel", "telemetry", "opentelemetry"},
				Read: toml.Sub(otlpTable(), func(f *file) *spec.OTLP { return &f.otlp })},
			{Name: "metrics", Type: "table", Doc: "metrics for Prometheus, and health checks",
				Also: []string{"prometheus", "monitoring", "health"},
				Read: toml.Sub(metricsTable(), func(f *file) *spec.Metrics { return &f.metrics })},
			{Name: "web", Type: "table", Doc: "the web page, served by the daemon",
				Also: []string{"dashboard", "ui", "http", "page"},
				Read: toml.Sub(webTable(), func(f *file) *spec.Web { return &f.web })},
			{Name: "traces", Type: "table", Doc: "traces for a receiver of OpenTelemetry",
				Also: []string{"trace", "tracing", "spans"},
				Read: toml.Sub(traces.Table(), func(f *file) *traces.Form { return &f.traces })},
			readEarlier("patches", "table", "changes to what is declared elsewhere, see `[[patches.agent]]`", "patch",
				"overrides"),
		},
	}
}

// readEarlier returns a key of the file that is handled before its tables are read.
func readEarlier(name, typ, doc string, also ...string) toml.Key[file] {
	return toml.Key[file]{Name: name, Type: typ, Doc: doc, Also: also, Read: func(*toml.Reader, *toml.Value, *file) {}}
}

// tables returns the read function of an array of tables. It calls read for each of them.
func tables(read func(*toml.Reader, *toml.Value, *file)) func(*toml.Reader, *toml.Value, *file) {
	return func(r *toml.Reader, v *toml.Value, f *file) {
		for _, e := range r.Tables(v) {
			read(r, e, f)
		}
	}
}

func projectTable() toml.Table[file] {
	return toml.Table[file]{
		Header: "[project]",
		Doc:    "The project as a whole.",
		Example: `[project]
name = "shop"
`,
		Keys: []toml.Key[file]{
			{Name: "name", Type: "string", Default: "the name of the directory",
				Doc:  "the first segment of every path, as in `shop/backend/api`; 1 to 64 bytes without `/`",
				Read: toml.Text(func(f *file) *string { return &f.root.Name })},
			programKey(),
			suspendedKey("the whole fleet is suspended: "+suspendedDoc,
				func(f *file) *bool { return &f.root.Suspended }),
		},
	}
}

const (
	restartType = "always, on-failure, never"
	restartDoc  = "`always` restarts after every exit, `on-failure` after failures, `never` not at all; " +
		"`permanent`, `transient` and `temporary` mean the same"
	signifDoc  = "takes part in the `auto_shutdown` of its supervisor; needs `restart` other than `always`"
	onLimitDoc = "`escalate` stops the children and fails, so that the parent's strategy applies; `quarantine` " +
		"waits until old restarts leave the window; `give_up` waits for a reset; `pause` starts nothing until it " +
		"is resumed"
)

// strategyKey returns the key strategy of a supervisor.
func strategyKey[T any](field func(*T) *supervisor.Strategy) toml.Key[T] {
	return toml.Key[T]{Name: "strategy", Type: "one_for_one, one_for_all, rest_for_one", Default: "one_for_one",
		Doc: "which children are restarted when one fails: only that one, all of them, that one and those " +
			"after it",
		Read: toml.Word(supervisor.ParseStrategy, field)}
}

// autoShutdownKey returns the key auto_shutdown of a supervisor.
func autoShutdownKey[T any](field func(*T) *supervisor.AutoShutdown) toml.Key[T] {
	return toml.Key[T]{Name: "auto_shutdown", Type: "never, any_significant, all_significant, when_done",
		Default: "never", Doc: "when it ends on its own: with the first or the last significant child that has " +
			"ended for good, or when nothing below it runs or will run again",
		Read: toml.Name(field)}
}

func supervisionTable() toml.Table[file] {
	of := func(f *file) *setting.Limit { return &f.limit }
	return toml.Table[file]{
		Header: "[supervision]",
		Doc: "The root supervisor. Its limit (`max_restarts`, `within_seconds`, `on_limit`) is also the default " +
			"of every `[[supervisor]]`; its strategy is not. A supervisor that sets another `on_limit` has the " +
			"default numbers of that one: 20 in 1h for `quarantine`, 10 for `give_up`, 3 in 5m for `pause`. The " +
			"root quarantines: an agent or supervisor directly under it that reaches its limit waits, and " +
			"everything else continues. With `on_limit = \"escalate\"` here, the root ends instead, and the " +
			"whole fleet with it.",
		Example: `[supervision]
strategy = "one_for_one"
on_limit = "escalate"
max_restarts = 5
within_seconds = 60
`,
		Keys: []toml.Key[file]{
			setting.MaxRestarts("20 for the root, 5 for other supervisors", "for the root, starts of one child "+
				"within the window; for other supervisors, restarts of their children", of),
			setting.WindowSeconds("60 for `escalate`, else that of `on_limit`", of),
			setting.OnLimit("quarantine for the root, escalate for other supervisors", onLimitDoc, of),
			strategyKey(func(f *file) *supervisor.Strategy { return &f.root.Strategy }),
			autoShutdownKey(func(f *file) *supervisor.AutoShutdown { return &f.root.AutoShutdown }),
			{Name: "persist", Type: "boolean", Default: "all but quarantines", Doc: "which restart counters, " +
				"delays, quarantines and give-ups a new daemon keeps. Not set: all of them, except for agents " +
				"whose limit is `quarantine`. `true`: all of them. `false`: none. An agent whose quarantine is " +
				"not kept starts at once, with fresh counters. Manual stops and pauses are always kept. See " +
				"[state.md](state.md#what-the-next-daemon-knows)", Also: []string{"persistent", "remember"},
				Read: func(r *toml.Reader, v *toml.Value, into *file) {
					persist := true
					toml.Bool(itself[bool])(r, v, &persist)
					if into.recall = spec.RestoreAll; !persist {
						into.recall = spec.RestoreNothing
					}
				}},
		},
	}
}

// ownPatches returns the arrays of a coppice.toml that can be patched.
func ownPatches() []toml.Patchable {
	agents, supervisors := toml.Named(agentTable().Section()), toml.Named(supervisorTable().Section())
	agents.Shorthand, supervisors.Shorthand = shorthand, shorthand
	return []toml.Patchable{agents, supervisors}
}

// shorthand returns the key that a value stands for if it is not a table: backoff = "linear"
// means backoff.kind. It returns "" if there is no short form. path is the path below an agent.
func shorthand(path ...string) string {
	switch strings.Join(path, ".") {
	case "backoff":
		return "kind"
	case "on_waking", "on_start", "on_resting", "on_error", "pool.on_boot", "pool.on_death":
		return "command"
	}
	if path[0] == "beliefs" && len(path) == 2 {
		return "initial"
	}
	return ""
}
