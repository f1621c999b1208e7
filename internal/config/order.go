package config

import (
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// orderForm is an [[order]], or a file of one, while it is read.
type orderForm struct {
	spec.Order
	table     *value
	file      string // its name is that of the file, if it is not empty
	lenient   bool   // types of events that nothing has are notices
	gates     []spec.GateKind
	gatesAt   *value
	exec      *value
	task      *value
	formula   *value
	pool      *value
	schedules []*value
	timezone  *value
	interval  time.Duration
	check     []string
	limit     time.Duration
	every     time.Duration
	on        []string
	path      string
	disabled  bool
}

// standing is [orders] while it is read.
type standing struct {
	skip        []*value
	maxTimeout  time.Duration
	overrides   []*value
	all         []orderForm
	translation *translation // nil in a coppice.toml
}

const retryDelay = 10 * time.Second // the default

func ordersTable() table[standing] {
	return table[standing]{
		header: "[orders]",
		doc: "What holds for all orders. Each order is an `[[order]]` here or a file of its own in `orders/` " +
			"beside this file, see [Orders](orders.md).",
		example: `[orders]
skip = ["report"]
max_timeout = "10m"

[[orders.overrides]]
name = "backup"
schedule = "30 4 * * *"

[[order]]
name = "backup"
exec = "./backup.sh"
schedule = "@daily"

[[order]]
name = "report"
exec = "./report.sh"
interval = "1h"
`,
		keys: []key[standing]{
			{row{name: "skip", typ: "array of strings", doc: "names of orders that are not fired by their gates",
				also: []string{"exclude", "disable", "disabled", "ignore"}},
				func(r *reader, v *value, into *standing) {
					if _, ok := r.list(v, "an array of names"); ok {
						into.skip = v.elements
					}
				}},
			{row{name: "max_timeout", typ: "duration",
				doc:  "the longest time that a run of any order may take, whatever its own `timeout` is",
				also: []string{"timeout", "timeout_cap"}},
				duration(func(s *standing) *time.Duration { return &s.maxTimeout })},
			{row{name: "overrides", typ: "array of tables",
				doc:  "keys that take the place of those of the order with that `name`",
				also: []string{"override", "patches"}},
				func(r *reader, v *value, into *standing) {
					if r.want(v, isArray, "an array of tables") {
						for _, e := range v.elements {
							if r.want(e, isTable, "a table") {
								into.overrides = append(into.overrides, e)
							}
						}
					}
				}},
		},
	}
}

func orderTable() table[orderForm] {
	return table[orderForm]{
		header: "[[order]]",
		doc: "An order is a command that is run, or a task that is made, when its gates open: after a while, at " +
			"times of the calendar, when a command succeeds, on events, by hand. " +
			"It has one of `exec` and `task`. See [Orders](orders.md).",
		example: `[[order]]
name = "backup"
exec = "./backup.sh"
schedule = "30 2 * * *"
timezone = "Europe/Berlin"
timeout = "20m"
retries = 2
`,
		keys: []key[orderForm]{
			{row{name: "name", typ: "string", def: "the name of its file",
				doc: "unique among the orders: letters, digits, dots, dashes and underscores", also: []string{"id"}},
				text(func(o *orderForm) *string { return &o.Name })},
			{row{name: "description", typ: "string", doc: "what it is for, in a line",
				also: []string{"desc", "about", "comment"}},
				text(func(o *orderForm) *string { return &o.Description })},
			{row{name: "exec", typ: "string or array of strings",
				doc:  "what to run, written as the `command` of an agent is",
				also: []string{"command", "cmd", "run", "script"}},
				func(r *reader, v *value, into *orderForm) {
					into.exec = v
					into.Command, _ = r.command(v)
				}},
			{row{name: "task", typ: "string or table",
				doc:  "the task that is made: its title, or a table, see `[order.task]`",
				also: []string{"job", "template", "bead", "issue"}},
				func(r *reader, v *value, into *orderForm) {
					into.task, into.Task = v, &spec.OrderTask{}
					if v.kind == isString {
						into.Task.Title, _ = r.text(v, "a title")
						return
					}
					taskTable().read(r, v, into.Task)
				}},
			{row{name: "formula", typ: "string", doc: "the same as `task` with a title",
				also: []string{"molecule", "wisp"}},
				func(r *reader, v *value, into *orderForm) {
					if title, ok := r.text(v, "a string"); ok {
						into.formula, into.Task = v, &spec.OrderTask{Title: title}
					}
				}},
			{row{name: "pool", typ: "string", doc: "the pool whose agents do the task",
				also: []string{"target", "agent", "queue", "assignee"}},
				func(r *reader, v *value, into *orderForm) {
					if _, ok := r.text(v, "the name of a pool"); ok {
						into.pool = v
					}
				}},
			{row{name: "gate", typ: "string or array of strings", def: "those that its keys say",
				doc: "what opens it: `cooldown` (`interval`), `cron` (`schedule`), `condition` (`check`), `event` " +
					"(`on`), `manual`, or several of them", also: []string{"gates", "trigger", "when"}},
				(*reader).gates},
			{row{name: "match", typ: "any, all", def: "any", doc: "whether any of several gates opens it, or only " +
				"all of them together: a time of `schedule` then waits for the others",
				also: []string{"require", "mode"}},
				func(r *reader, v *value, into *orderForm) {
					if !r.want(v, isString, "any or all") {
						return
					}
					if into.All = v.text == "all"; !into.All && v.text != "any" {
						r.fail(v.at, v, meantOneOf(v.text, "any", "all"), "match is %s, expected any or all",
							spec.Quote(v.text))
					}
				}},
			{row{name: "schedule", typ: "string or array of strings", doc: "times of the calendar: `minute hour " +
				"day-of-month month day-of-week`, six fields with seconds before them, or `@hourly`, `@daily`, " +
				"`@weekly`, `@monthly`, `@yearly`", also: []string{"cron", "at", "crontab", "on_calendar"}},
				func(r *reader, v *value, into *orderForm) { into.schedules = r.strings(v, "a schedule") }},
			{row{name: "timezone", typ: "string", def: "that of the machine",
				doc:  "the time zone of `schedule`, by its IANA name",
				also: []string{"tz", "time_zone", "zone", "location"}},
				func(r *reader, v *value, into *orderForm) {
					if _, ok := r.text(v, "the name of a time zone"); ok {
						into.timezone = v
					}
				}},
			{row{name: "interval", typ: "duration", doc: "the time from the beginning of one run to the next; an " +
				"order that never ran is due at once", also: []string{"cooldown", "period", "every"}},
				duration(func(o *orderForm) *time.Duration { return &o.interval })},
			{row{name: "check", typ: "string or array of strings",
				doc:  "a command; exit code 0 opens it. It has the order's directory and environment",
				also: []string{"condition", "if", "test", "unless"}},
				func(r *reader, v *value, into *orderForm) { into.check, _ = r.command(v) }},
			{row{name: "check_timeout", typ: "duration", def: "10s",
				doc: "how long `check` may take; it has failed then", also: []string{"check_limit"}},
				duration(func(o *orderForm) *time.Duration { return &o.limit })},
			{row{name: "check_interval", typ: "duration", def: "30s", doc: "the time from one `check` to the next",
				also: []string{"poll", "poll_interval", "check_every"}},
				duration(func(o *orderForm) *time.Duration { return &o.every })},
			{row{name: "on", typ: "string or array of strings", doc: "types of events, or patterns such as " +
				"`\"agent.*\"`, see [events.md](events.md). Each event is handed over once",
				also: []string{"event", "events", "types"}},
				func(r *reader, v *value, into *orderForm) {
					for _, e := range r.strings(v, "a type of events") {
						r.eventType(e, into)
					}
				}},
			{row{name: "path", typ: "string", doc: "only events about this node of the tree, or below it",
				also: []string{"on_path", "source"}}, text(func(o *orderForm) *string { return &o.path })},
			{row{name: "timeout", typ: "duration", def: "5m",
				doc:  "how long a run may take; then it is stopped, and killed with all that it has started",
				also: []string{"max_duration", "deadline"}},
				duration(func(o *orderForm) *time.Duration { return &o.Timeout })},
			{row{name: "overlap", typ: "skip, queue, allow", def: "skip", doc: "what becomes of a firing while it " +
				"runs: it is skipped, fires once when the run has ended, or fires at once",
				also: []string{"concurrency", "concurrency_policy", "on_overlap"}},
				word(spec.ParseOverlap, func(o *orderForm) *spec.Overlap { return &o.Overlap })},
			{row{name: "catch_up", typ: "boolean", def: "false", doc: "whether a time of `schedule` that has " +
				"passed while there was no daemon fires once when there is one again",
				also: []string{"catchup", "persistent", "backfill", "missed"}},
				flag(func(o *orderForm) *bool { return &o.CatchUp })},
			{row{name: "retries", typ: "integer", def: "0",
				doc:  "how often a run that has failed is tried again, 0 to 100",
				also: []string{"retry", "max_retries", "attempts"}},
				func(r *reader, v *value, into *orderForm) {
					if n, ok := r.integer(v, 0, 100, "an integer from 0 to 100"); ok {
						into.Retries = int(n)
					}
				}},
			{row{name: "backoff", typ: "none, fixed, linear, exponential", def: "exponential",
				doc: "how the delay before a retry grows; it is 5m at most", also: []string{"retry_backoff"}},
				word(supervisor.ParseBackoffKind,
					func(o *orderForm) *supervisor.BackoffKind { return &o.Backoff.Kind })},
			{row{name: "retry_delay", typ: "duration", def: "10s",
				doc: "the delay before the first retry, 5m at most", also: []string{"delay", "base"}},
				duration(func(o *orderForm) *time.Duration { return &o.Backoff.Base })},
			{row{name: "enabled", typ: "boolean", def: "true",
				doc:  "whether its gates fire it; `coppice order run` does in any case",
				also: []string{"enable", "active"}},
				func(r *reader, v *value, into *orderForm) {
					enabled := true
					flag(func(p *bool) *bool { return p })(r, v, &enabled)
					into.disabled = !enabled
				}},
			{row{name: "env", typ: "table of strings", doc: "variables beside the few that every agent gets",
				also: []string{"environment"}},
				func(r *reader, v *value, into *orderForm) {
					var a agent
					r.env(v, &a)
					into.Env = a.Env
				}},
			{row{name: "dir", typ: "string", def: "the directory of the project",
				doc:  "the working directory, relative to that",
				also: []string{"cwd", "workdir", "working_dir", "directory"}},
				text(func(o *orderForm) *string { return &o.Dir })},
		},
	}
}

func taskTable() table[spec.OrderTask] {
	return table[spec.OrderTask]{
		header: "[order.task]",
		doc:    "The task that an order makes each time it fires. Agents get it by `coppice agent hook`.",
		example: `[[order]]
name = "triage"
schedule = "@daily"
pool = "workers"
task = { title = "Look at what came in since yesterday", labels = ["triage"], priority = 1 }
`,
		keys: []key[spec.OrderTask]{
			{row{name: "title", typ: "string", def: required, doc: "what is to be done, in a line",
				also: []string{"name", "formula"}}, text(func(t *spec.OrderTask) *string { return &t.Title })},
			{row{name: "text", typ: "string", doc: "all that is to be known",
				also: []string{"description", "body", "prompt"}},
				text(func(t *spec.OrderTask) *string { return &t.Text })},
			{row{name: "assignee", typ: "string", doc: "the path of the agent that does it", also: []string{"agent"}},
				text(func(t *spec.OrderTask) *string { return &t.Assignee })},
			{row{name: "labels", typ: "array of strings", doc: "labels of the task", also: []string{"tags"}},
				func(r *reader, v *value, into *spec.OrderTask) { into.Labels, _ = r.list(v, "an array of labels") }},
			{row{name: "priority", typ: "integer", def: "2", doc: "0, the most urgent, to 4", also: []string{"prio"}},
				func(r *reader, v *value, into *spec.OrderTask) {
					if n, ok := r.integer(v, 0, 4, "an integer from 0 to 4"); ok {
						p := int(n)
						into.Priority = &p
					}
				}},
		},
	}
}

func (r *reader) gates(v *value, into *orderForm) {
	into.gatesAt = v
	for _, e := range r.strings(v, "a gate") {
		kind, err := spec.ParseGateKind(e.text)
		switch {
		case err != nil:
			r.fail(e.at, e, meantOneOf(e.text, "cooldown", "cron", "condition", "event", "manual"),
				"gate is %s, expected one of cooldown, cron, condition, event, manual", spec.Quote(e.text))
		case slices.Contains(into.gates, kind):
			r.fail(e.at, e, "", "the gate %v is there twice, expected once", kind)
		default:
			into.gates = append(into.gates, kind)
		}
	}
}
