package config

import (
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
