package orders

import (
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/config/gascity"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// form is an [[order]], or the file of an order, while it is read.
type form struct {
	spec.Order
	table     *toml.Value
	file      string // the name of its file; "" if it has none
	lenient   bool   // unknown types of events are notices, not errors
	gates     []spec.GateKind
	pool      string
	schedules []*toml.Value
	timezone  string
	interval  time.Duration
	check     []string
	limit     time.Duration
	every     time.Duration
	on        []string
	path      string
	disabled  bool
}

// Settings is [orders] and all orders while they are read.
type Settings struct {
	TooMany     string               // the hint if there are too many orders
	Translation *gascity.Translation // nil in a coppice.toml

	skip       []*toml.Value
	maxTimeout time.Duration
	overrides  []*toml.Value
	all        []form
}

const retryDelay = 10 * time.Second // the default

// Sections returns the tables of orders for the reference page.
func Sections() []toml.Section {
	return []toml.Section{Table().Section(), orderTable().Section(), taskTable().Section()}
}

// Table describes [orders].
func Table() toml.Table[Settings] {
	return toml.Table[Settings]{
		Header: "[orders]",
		Doc: "Settings of all orders. Each order is an `[[order]]` here or a file of its own in `orders/` next " +
			"to this file, see [Orders](orders.md).",
		Example: `[orders]
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
		Keys: []toml.Key[Settings]{
			{Name: "skip", Type: "array of strings", Doc: "names of orders that their gates do not fire",
				Also: []string{"exclude", "disable", "disabled", "ignore"},
				Read: func(r *toml.Reader, v *toml.Value, into *Settings) {
					if _, ok := r.List(v, "an array of names"); ok {
						into.skip = v.Elements
					}
				}},
			{Name: "max_timeout", Type: "duration",
				Doc:  "the longest time that a run of any order may take, whatever its own `timeout` is",
				Also: []string{"timeout", "timeout_cap"},
				Read: toml.Duration(func(s *Settings) *time.Duration { return &s.maxTimeout })},
			{Name: "overrides", Type: "array of tables",
				Doc:  "keys that replace those of the order with that `name`",
				Also: []string{"override", "patches"},
				Read: func(r *toml.Reader, v *toml.Value, into *Settings) { into.overrides = r.Tables(v) }},
		},
	}
}

func orderTable() toml.Table[form] {
	return toml.Table[form]{
		Header: "[[order]]",
		Doc: "An order runs a command or creates a task when its gates open: after an interval, on a schedule, " +
			"when a command succeeds, on events, or manually. It has either `exec` or `task`. See " +
			"[Orders](orders.md).",
		Example: `[[order]]
name = "backup"
exec = "./backup.sh"
schedule = "30 2 * * *"
timezone = "Europe/Berlin"
timeout = "20m"
retries = 2
`,
		Keys: []toml.Key[form]{
			{Name: "name", Type: "string", Default: "the name of its file",
				Doc: "unique among the orders: letters, digits, dots, dashes and underscores", Also: []string{"id"},
				Read: toml.Text(func(o *form) *string { return &o.Name })},
			{Name: "description", Type: "string", Doc: "what it is for, in a line",
				Also: []string{"desc", "about", "comment"},
				Read: toml.Text(func(o *form) *string { return &o.Description })},
			{Name: "exec", Type: "string or array of strings",
				Doc:  "what to run, written as the `command` of an agent is",
				Also: []string{"command", "cmd", "run", "script"},
				Read: setting.CommandKey(func(o *form) *[]string { return &o.Command })},
			{Name: "task", Type: "string or table",
				Doc:  "the task to create: its title, or a table, see `[order.task]`",
				Also: []string{"job", "template", "bead", "issue"},
				Read: func(r *toml.Reader, v *toml.Value, into *form) {
					into.Task = &spec.OrderTask{}
					if v.Kind == toml.KindString {
						into.Task.Title, _ = r.Text(v, "a title")
						return
					}
					taskTable().Read(r, v, into.Task)
				}},
			{Name: "formula", Type: "string", Doc: "the same as `task` with a title",
				Also: []string{"molecule", "wisp"},
				Read: func(r *toml.Reader, v *toml.Value, into *form) {
					if title, ok := r.Text(v, "a string"); ok {
						into.Task = &spec.OrderTask{Title: title}
					}
				}},
			{Name: "pool", Type: "string", Doc: "the pool whose agents do the task",
				Also: []string{"target", "agent", "queue", "assignee"},
				Read: toml.Text(func(o *form) *string { return &o.pool })},
			{Name: "gate", Type: "string or array of strings", Default: "those that its keys say",
				Doc: "what opens it: `cooldown` (`interval`), `cron` (`schedule`), `condition` (`check`), `event` " +
					"(`on`), `manual`, or several of them", Also: []string{"gates", "trigger", "when"},
				Read: readGates},
			{Name: "match", Type: "any, all", Default: "any", Doc: "whether any of several gates opens it, or " +
				"only all of them together: a time of `schedule` then waits for the others",
				Also: []string{"require", "mode"},
				Read: toml.OneOf([]string{"any", "all"}, func(o *form, i int) { o.All = i == 1 })},
			{Name: "schedule", Type: "string or array of strings",
				Doc: "a cron schedule: `minute hour day-of-month month day-of-week`, six fields with seconds " +
					"before them, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`",
				Also: []string{"cron", "at", "crontab", "on_calendar"},
				Read: func(r *toml.Reader, v *toml.Value, into *form) {
					into.schedules = r.Strings(v, "a schedule")
				}},
			{Name: "timezone", Type: "string", Default: "that of the machine",
				Doc:  "the time zone of `schedule`, by its IANA name",
				Also: []string{"tz", "time_zone", "zone", "location"},
				Read: toml.Text(func(o *form) *string { return &o.timezone })},
			{Name: "interval", Type: "duration", Doc: "the time from the start of one run to the next; an order " +
				"that never ran is due at once", Also: []string{"cooldown", "period", "every"},
				Read: toml.Duration(func(o *form) *time.Duration { return &o.interval })},
			{Name: "check", Type: "string or array of strings",
				Doc:  "a command; exit code 0 opens it. It has the order's directory and environment",
				Also: []string{"condition", "if", "test", "unless"},
				Read: setting.CommandKey(func(o *form) *[]string { return &o.check })},
			{Name: "check_timeout", Type: "duration", Default: "10s",
				Doc: "how long `check` may take; then it has failed", Also: []string{"check_limit"},
				Read: toml.Duration(func(o *form) *time.Duration { return &o.limit })},
			{Name: "check_interval", Type: "duration", Default: "30s", Doc: "the time from one `check` to the next",
				Also: []string{"poll", "poll_interval", "check_every"},
				Read: toml.Duration(func(o *form) *time.Duration { return &o.every })},
			{Name: "on", Type: "string or array of strings", Doc: "types of events, or patterns such as " +
				"`\"agent.*\"`, see [events.md](events.md). Each event fires the order once",
				Also: []string{"event", "events", "types"},
				Read: func(r *toml.Reader, v *toml.Value, into *form) {
					for _, e := range r.Strings(v, "a type of events") {
						readEventType(r, e, into)
					}
				}},
			{Name: "path", Type: "string", Doc: "only events about this node of the tree, or below it",
				Also: []string{"on_path", "source"}, Read: toml.Text(func(o *form) *string { return &o.path })},
			{Name: "timeout", Type: "duration", Default: "5m",
				Doc: "how long a run may take; then it is stopped, and killed with all processes that it has " +
					"started",
				Also: []string{"max_duration", "deadline"},
				Read: toml.Duration(func(o *form) *time.Duration { return &o.Timeout })},
			{Name: "overlap", Type: "skip, queue, allow", Default: "skip", Doc: "what happens when it fires " +
				"while it runs: the firing is skipped, waits until the run has ended (once, however many there " +
				"were), or starts another run at once",
				Also: []string{"concurrency", "concurrency_policy", "on_overlap"},
				Read: toml.Name(func(o *form) *spec.Overlap { return &o.Overlap })},
			{Name: "catch_up", Type: "boolean", Default: "false", Doc: "whether a time of `schedule` that passed " +
				"while no daemon was running fires once when the next daemon starts",
				Also: []string{"catchup", "persistent", "backfill", "missed"},
				Read: toml.Bool(func(o *form) *bool { return &o.CatchUp })},
			{Name: "retries", Type: "integer", Default: "0",
				Doc:  "how often a run that has failed is tried again, 0 to 100",
				Also: []string{"retry", "max_retries", "attempts"},
				Read: toml.Int(0, 100, func(o *form) *int { return &o.Retries })},
			{Name: "backoff", Type: "none, fixed, linear, exponential", Default: "exponential",
				Doc: "how the delay before a retry grows; it is 5m at most", Also: []string{"retry_backoff"},
				Read: toml.Name(func(o *form) *supervisor.BackoffKind { return &o.Backoff.Kind })},
			{Name: "retry_delay", Type: "duration", Default: "10s",
				Doc: "the delay before the first retry, 5m at most", Also: []string{"delay", "base"},
				Read: toml.Duration(func(o *form) *time.Duration { return &o.Backoff.Base })},
			{Name: "enabled", Type: "boolean", Default: "true",
				Doc:  "whether its gates fire it; `coppice order run` works in any case",
				Also: []string{"enable", "active"},
				Read: func(r *toml.Reader, v *toml.Value, into *form) {
					enabled := true
					toml.Bool(func(b *bool) *bool { return b })(r, v, &enabled)
					into.disabled = !enabled
				}},
			{Name: "env", Type: "table of strings", Doc: "variables in addition to the few that every agent gets",
				Also: []string{"environment"},
				Read: toml.StringMap("a table of strings", func(o *form) *map[string]string { return &o.Env })},
			{Name: "dir", Type: "string", Default: "the directory of the project",
				Doc:  "the working directory, relative to that",
				Also: []string{"cwd", "workdir", "working_dir", "directory"},
				Read: toml.Text(func(o *form) *string { return &o.Dir })},
		},
	}
}

func taskTable() toml.Table[spec.OrderTask] {
	return toml.Table[spec.OrderTask]{
		Header: "[order.task]",
		Doc:    "The task that an order creates each time it fires. Agents get it by `coppice agent hook`.",
		Example: `[[order]]
name = "triage"
schedule = "@daily"
pool = "workers"
task = { title = "Look at what came in since yesterday", labels = ["triage"], priority = 1 }
`,
		Keys: []toml.Key[spec.OrderTask]{
			{Name: "title", Type: "string", Default: toml.Required, Doc: "what is to be done, in a line",
				Also: []string{"name", "formula"},
				Read: toml.Text(func(t *spec.OrderTask) *string { return &t.Title })},
			{Name: "text", Type: "string", Doc: "everything that the agent needs to know",
				Also: []string{"description", "body", "prompt"},
				Read: toml.Text(func(t *spec.OrderTask) *string { return &t.Text })},
			{Name: "assignee", Type: "string", Doc: "the path of the agent that does the task", Also: []string{"agent"},
				Read: toml.Text(func(t *spec.OrderTask) *string { return &t.Assignee })},
			{Name: "labels", Type: "array of strings", Doc: "labels of the task", Also: []string{"tags"},
				Read: toml.List("an array of labels", func(t *spec.OrderTask) *[]string { return &t.Labels })},
			{Name: "priority", Type: "integer", Default: "2", Doc: "0, the most urgent, to 4", Also: []string{"prio"},
				Read: func(r *toml.Reader, v *toml.Value, into *spec.OrderTask) {
					if n, ok := r.Integer(v, 0, 4, "an integer from 0 to 4"); ok {
						into.Priority = new(int(n))
					}
				}},
		},
	}
}

func readGates(r *toml.Reader, v *toml.Value, into *form) {
	for _, e := range r.Strings(v, "a gate") {
		switch kind, ok := toml.ReadName[spec.GateKind](r, e); {
		case !ok:
		case slices.Contains(into.gates, kind):
			r.Fail(e, "", "the gate %v is there twice, expected once", kind)
		default:
			into.gates = append(into.gates, kind)
		}
	}
}
