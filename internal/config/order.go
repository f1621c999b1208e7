package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/lookpath"
	"github.com/coppice-dev/coppice/internal/orders"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/supervisor"
)

// order is an [[order]], or a file of one, while it is read.
type order struct {
	spec.StandingOrder
	table     *value
	file      string // its name is that of the file, if it is not empty
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
	skip       []*value
	maxTimeout time.Duration
	overrides  []*value
	all        []order
}

const retryDelay = 10 * time.Second // the default

func ordersTable() table[standing] {
	return table[standing]{
		header: "[orders]",
		doc:    "What holds for all orders. Each order is an `[[order]]` here or a file of its own in `orders/` beside this file, see [Orders](orders.md).",
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
			{row{name: "skip", typ: "array of strings", doc: "names of orders that are not fired by their gates", also: []string{"exclude", "disable", "disabled", "ignore"}},
				func(r *reader, v *value, into *standing) {
					if _, ok := r.list(v, "an array of names"); ok {
						into.skip = v.elements
					}
				}},
			{row{name: "max_timeout", typ: "duration", doc: "the longest time that a run of any order may take, whatever its own `timeout` is", also: []string{"timeout", "timeout_cap"}},
				duration(func(s *standing) *time.Duration { return &s.maxTimeout })},
			{row{name: "overrides", typ: "array of tables", doc: "keys that take the place of those of the order with that `name`", also: []string{"override", "patches"}},
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

func orderTable() table[order] {
	return table[order]{
		header: "[[order]]",
		doc: "An order is a command that is run, or a task that is made, when its gates open: after a while, at times of the calendar, when a command succeeds, on events, by hand. " +
			"It has one of `exec` and `task`. See [Orders](orders.md).",
		example: `[[order]]
name = "backup"
exec = "./backup.sh"
schedule = "30 2 * * *"
timezone = "Europe/Berlin"
timeout = "20m"
retries = 2
`,
		keys: []key[order]{
			{row{name: "name", typ: "string", def: "the name of its file", doc: "unique among the orders: letters, digits, dots, dashes and underscores", also: []string{"id"}}, text(func(o *order) *string { return &o.Name })},
			{row{name: "description", typ: "string", doc: "what it is for, in a line", also: []string{"desc", "about", "comment"}}, text(func(o *order) *string { return &o.Description })},
			{row{name: "exec", typ: "string or array of strings", doc: "what to run, written as the `command` of an agent is", also: []string{"command", "cmd", "run", "script"}},
				func(r *reader, v *value, into *order) {
					into.exec = v
					into.Command, _ = r.command(v)
				}},
			{row{name: "task", typ: "string or table", doc: "the task that is made: its title, or a table, see `[order.task]`", also: []string{"job", "template", "bead", "issue"}},
				func(r *reader, v *value, into *order) {
					into.task, into.Task = v, &spec.OrderTask{}
					if v.kind == isString {
						into.Task.Title, _ = r.text(v, "a title")
						return
					}
					taskTable().read(r, v, into.Task)
				}},
			{row{name: "formula", typ: "string", doc: "the same as `task` with a title", also: []string{"molecule", "wisp"}},
				func(r *reader, v *value, into *order) {
					if title, ok := r.text(v, "a string"); ok {
						into.formula, into.Task = v, &spec.OrderTask{Title: title}
					}
				}},
			{row{name: "pool", typ: "string", doc: "the pool whose agents do the task", also: []string{"target", "agent", "queue", "assignee"}},
				func(r *reader, v *value, into *order) {
					if _, ok := r.text(v, "the name of a pool"); ok {
						into.pool = v
					}
				}},
			{row{name: "gate", typ: "string or array of strings", def: "those that its keys say", doc: "what opens it: `cooldown` (`interval`), `cron` (`schedule`), `condition` (`check`), `event` (`on`), `manual`, or several of them", also: []string{"gates", "trigger", "when"}},
				(*reader).gates},
			{row{name: "match", typ: "any, all", def: "any", doc: "whether any of several gates opens it, or only all of them together: a time of `schedule` then waits for the others", also: []string{"require", "mode"}},
				func(r *reader, v *value, into *order) {
					if !r.want(v, isString, "any or all") {
						return
					}
					if into.All = v.text == "all"; !into.All && v.text != "any" {
						r.fail(v.at, v, meantOneOf(v.text, "any", "all"), "match is %s, expected any or all", spec.Quote(v.text))
					}
				}},
			{row{name: "schedule", typ: "string or array of strings", doc: "times of the calendar: `minute hour day-of-month month day-of-week`, six fields with seconds before them, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`", also: []string{"cron", "at", "crontab", "on_calendar"}},
				func(r *reader, v *value, into *order) { into.schedules = r.strings(v, "a schedule") }},
			{row{name: "timezone", typ: "string", def: "that of the machine", doc: "the time zone of `schedule`, by its IANA name", also: []string{"tz", "time_zone", "zone", "location"}},
				func(r *reader, v *value, into *order) {
					if _, ok := r.text(v, "the name of a time zone"); ok {
						into.timezone = v
					}
				}},
			{row{name: "interval", typ: "duration", doc: "the time from the beginning of one run to the next; an order that never ran is due at once", also: []string{"cooldown", "period", "every"}}, duration(func(o *order) *time.Duration { return &o.interval })},
			{row{name: "check", typ: "string or array of strings", doc: "a command; exit code 0 opens it. It has the order's directory and environment", also: []string{"condition", "if", "test", "unless"}},
				func(r *reader, v *value, into *order) { into.check, _ = r.command(v) }},
			{row{name: "check_timeout", typ: "duration", def: "10s", doc: "how long `check` may take; it has failed then", also: []string{"check_limit"}}, duration(func(o *order) *time.Duration { return &o.limit })},
			{row{name: "check_interval", typ: "duration", def: "30s", doc: "the time from one `check` to the next", also: []string{"poll", "poll_interval", "check_every"}}, duration(func(o *order) *time.Duration { return &o.every })},
			{row{name: "on", typ: "string or array of strings", doc: "types of events, or patterns such as `\"agent.*\"`: `coppice events` shows them. Each event is handed over once", also: []string{"event", "events", "types"}},
				func(r *reader, v *value, into *order) {
					for _, e := range r.strings(v, "a type of events") {
						if orders.CheckPattern(e.text) != nil {
							r.fail(e.at, e, `a "[" begins a set of characters; \ escapes it`, "%s is no pattern of types of events", spec.Quote(e.text))
						}
						into.on = append(into.on, e.text)
					}
				}},
			{row{name: "path", typ: "string", doc: "only events about this node of the tree, or below it", also: []string{"on_path", "source"}}, text(func(o *order) *string { return &o.path })},
			{row{name: "timeout", typ: "duration", def: "5m", doc: "how long a run may take; then it is stopped, and killed with all that it has started", also: []string{"max_duration", "deadline"}}, duration(func(o *order) *time.Duration { return &o.Timeout })},
			{row{name: "overlap", typ: "skip, queue, allow", def: "skip", doc: "what becomes of a firing while it runs: it is skipped, fires once when the run has ended, or fires at once", also: []string{"concurrency", "concurrency_policy", "on_overlap"}},
				word(spec.ParseOverlap, func(o *order) *spec.Overlap { return &o.Overlap })},
			{row{name: "catch_up", typ: "boolean", def: "false", doc: "whether a time of `schedule` that has passed while there was no daemon fires once when there is one again", also: []string{"catchup", "persistent", "backfill", "missed"}}, flag(func(o *order) *bool { return &o.CatchUp })},
			{row{name: "retries", typ: "integer", def: "0", doc: "how often a run that has failed is tried again, 0 to 100", also: []string{"retry", "max_retries", "attempts"}},
				func(r *reader, v *value, into *order) {
					if n, ok := r.integer(v, 0, 100, "an integer from 0 to 100"); ok {
						into.Retries = int(n)
					}
				}},
			{row{name: "backoff", typ: "none, fixed, linear, exponential", def: "exponential", doc: "how the delay before a retry grows; it is 5m at most", also: []string{"retry_backoff"}},
				word(supervisor.ParseBackoffKind, func(o *order) *supervisor.BackoffKind { return &o.Backoff.Kind })},
			{row{name: "retry_delay", typ: "duration", def: "10s", doc: "the delay before the first retry", also: []string{"delay", "base"}}, duration(func(o *order) *time.Duration { return &o.Backoff.Base })},
			{row{name: "enabled", typ: "boolean", def: "true", doc: "whether its gates fire it; `coppice order run` does in any case", also: []string{"enable", "active"}},
				func(r *reader, v *value, into *order) {
					enabled := true
					flag(func(p *bool) *bool { return p })(r, v, &enabled)
					into.disabled = !enabled
				}},
			{row{name: "env", typ: "table of strings", doc: "variables beside the few that every agent gets", also: []string{"environment"}},
				func(r *reader, v *value, into *order) {
					var a agent
					r.env(v, &a)
					into.Env = a.Env
				}},
			{row{name: "dir", typ: "string", def: "the directory of the project", doc: "the working directory, relative to that", also: []string{"cwd", "workdir", "working_dir", "directory"}}, text(func(o *order) *string { return &o.Dir })},
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
			{row{name: "title", typ: "string", def: required, doc: "what is to be done, in a line", also: []string{"name", "formula"}}, text(func(t *spec.OrderTask) *string { return &t.Title })},
			{row{name: "text", typ: "string", doc: "all that is to be known", also: []string{"description", "body", "prompt"}}, text(func(t *spec.OrderTask) *string { return &t.Text })},
			{row{name: "assignee", typ: "string", doc: "the path of the agent that does it", also: []string{"agent"}}, text(func(t *spec.OrderTask) *string { return &t.Assignee })},
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

// strings reads a string or an array of them.
func (r *reader) strings(v *value, expected string) []*value {
	if v.kind != isArray {
		if _, ok := r.text(v, expected); ok {
			return []*value{v}
		}
		return nil
	}
	var all []*value
	for _, e := range v.elements {
		if _, ok := r.text(e, expected); ok {
			all = append(all, e)
		}
	}
	if len(v.elements) == 0 {
		r.fail(v.at, v, "", "%s is empty, expected %s", r.label(v), expected)
	}
	return all
}

func (r *reader) gates(v *value, into *order) {
	into.gatesAt = v
	for _, e := range r.strings(v, "a gate") {
		kind, err := spec.ParseGateKind(e.text)
		switch {
		case err != nil:
			r.fail(e.at, e, meantOneOf(e.text, "cooldown", "cron", "condition", "event", "manual"), "gate is %s, expected one of cooldown, cron, condition, event, manual", spec.Quote(e.text))
		case slices.Contains(into.gates, kind):
			r.fail(e.at, e, "", "the gate %v is there twice, expected once", kind)
		default:
			into.gates = append(into.gates, kind)
		}
	}
}

func meantOneOf(text string, words ...string) string {
	if near := suggest.Nearest(text, words); near != "" {
		return "did you mean " + spec.Quote(near) + "?"
	}
	return ""
}

// maxOrders is how many orders there may be.
const maxOrders = 20_000

// orders makes the orders of a file, and of those beside it.
func (r *reader) orders(f *file, dir string, g *gatherer, look bool) []*spec.StandingOrder {
	s := &f.standing
	if g.r != nil {
		r.orderFiles(s, g)
	}
	known := make(map[string]*value)
	var names []string
	for i := range s.all {
		o := &s.all[i]
		name := o.table.byName["name"]
		switch {
		case name != nil && name.kind == isString && o.file == "":
			o.Name = name.text
		case o.file != "":
			o.Name = o.file
			if name != nil && name.text != o.file {
				r.fail(name.at, name, "remove it, or rename the file", "name is %s in a file called %s, expected the same", spec.Quote(name.text), spec.Quote(o.file))
			}
		default:
			r.fail(o.table.at, o.table, "", "[[order]] without name, expected one (string)")
			continue
		}
		if err := orders.CheckName(o.Name); err != nil {
			at := cmp.Or(name, o.table)
			r.fail(at.at, at, "", "the name of an order %v", err)
		}
		if other := known[o.Name]; other != nil {
			line, _ := other.src.position(other.at)
			r.fail(o.table.at, o.table, "", "there are two orders called %s, the other one in line %d of %s, expected one", spec.Quote(o.Name), line, other.src.name)
			continue
		}
		known[o.Name] = o.table
		names = append(names, o.Name)
	}
	r.override(s, known, names)
	skipped := r.skips(s, known, names)
	var all []*spec.StandingOrder
	table := orderTable()
	for i := range s.all {
		o := &s.all[i]
		if known[o.Name] != o.table {
			continue
		}
		table.read(r, o.table, o)
		if o.file != "" {
			o.Name = o.file
		}
		if root := f.root.Name; o.path != "" && o.path != root && !strings.HasPrefix(o.path, root+"/") && !strings.HasPrefix(o.path, "orders/") {
			o.path = root + "/" + strings.Trim(o.path, "/") // as paths are meant everywhere
		}
		r.finish(o, s, dir, skipped[o.Name])
		if look {
			r.lookFor(o)
		}
		all = append(all, &o.StandingOrder)
	}
	return all
}

// orderFiles reads the files of orders.
func (r *reader) orderFiles(s *standing, g *gatherer) {
	for _, pattern := range []string{"orders/*.toml", "orders/*/order.toml"} {
		found, err := g.glob(".", strings.Split(pattern, "/"))
		if err != nil {
			r.add(&Error{File: filepath.Join(g.shown, "orders"), Message: fmt.Sprintf("cannot be looked through: %v", reason(err))})
			return
		}
		for _, path := range found {
			name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".toml"), ".order")
			if strings.HasSuffix(path, "/order.toml") && filepath.Dir(path) != "orders" {
				name = filepath.Base(filepath.Dir(path))
			}
			if table := r.orderFile(g, path); table != nil {
				s.all = append(s.all, order{table: table, file: name})
			}
		}
	}
	if len(s.all) > maxOrders {
		r.add(&Error{File: filepath.Join(g.shown, "orders"), Message: fmt.Sprintf("%d orders, expected at most %d", len(s.all), maxOrders), Hint: fleet.large})
	}
}

// orderFile reads the file of an order: its keys are those of [[order]], alone or
// below [order].
func (r *reader) orderFile(g *gatherer, path string) *value {
	absolute, shown := g.absolute(path), path
	if g.shown != "." {
		shown = filepath.Join(g.shown, path)
	}
	g.watchFile(absolute)
	data, info, e := readFile(absolute, advice{large: "an order is a few lines"})
	g.files = append(g.files, included{info: info, path: absolute, data: data})
	if e != nil {
		e.File = shown
		r.add(e)
		return nil
	}
	if g.size += int64(len(data)); g.size > MaxTotal {
		r.add(&Error{File: shown, Message: fmt.Sprintf("makes %d bytes of all files, expected at most %d", g.size, MaxTotal), Hint: fleet.large})
		return nil
	}
	src := newSource(shown, data)
	src.order = len(g.files) - 1
	err := src.checkText()
	var document *value
	if err == nil {
		document, err = parse(src)
	}
	if err != nil {
		r.add(err)
		return nil
	}
	table := document.byName["order"]
	if table == nil {
		document.name = "order"
		return document
	}
	for _, f := range document.fields {
		if f != table {
			r.fail(f.key, f, "put it below [order], or leave that out", "%s beside [order], expected nothing", bareKey(f.name))
		}
	}
	if !r.want(table, isTable, "a table") {
		return nil
	}
	return table
}

// override puts the keys of overrides into the tables of their orders.
func (r *reader) override(s *standing, known map[string]*value, names []string) {
	for _, o := range s.overrides {
		name := o.byName["name"]
		if name == nil {
			r.fail(o.at, o, "", "[[orders.overrides]] without name, expected that of an order")
			continue
		}
		table := known[name.text]
		if name.kind != isString || table == nil {
			r.fail(name.at, name, noOrder(name.text, names), "there is no order %s to override", spec.Quote(name.text))
			continue
		}
		for _, f := range slices.Clone(o.fields) {
			if f == name {
				continue
			}
			if old := table.byName[f.name]; old != nil {
				table.replace(old, f)
			} else {
				table.adopt(f)
			}
		}
	}
}

// skips are the names of the orders that are to be skipped.
func (r *reader) skips(s *standing, known map[string]*value, names []string) map[string]bool {
	skipped := make(map[string]bool)
	for _, e := range s.skip {
		if known[e.text] == nil {
			r.fail(e.at, e, noOrder(e.text, names), "there is no order %s to skip", spec.Quote(e.text))
		}
		skipped[e.text] = true
	}
	return skipped
}

func noOrder(name string, names []string) string {
	if near := suggest.Nearest(name, names); near != "" {
		return "did you mean " + spec.Quote(near) + "?"
	}
	if len(names) == 0 {
		return "there are no orders"
	}
	return "remove it"
}

// finish makes an order of what was read.
func (r *reader) finish(o *order, s *standing, dir string, skipped bool) {
	place := r.place(o.table)
	o.Source = fmt.Sprintf("%s:%d:%d", place.File, place.Line, place.Column)
	o.Dir = under(dir, o.Dir)
	switch {
	case o.exec == nil && o.task == nil && o.formula == nil:
		r.fail(o.table.at, o.table, "write exec or task", "the order %s does nothing, expected one of exec and task", spec.Quote(o.Name))
	case o.exec != nil && (o.task != nil || o.formula != nil):
		r.fail(o.exec.at, o.exec, "remove one of them, or make two orders", "the order %s has exec and a task, expected one of them", spec.Quote(o.Name))
	case o.task != nil && o.formula != nil:
		r.fail(o.formula.at, o.formula, "remove it", "formula beside task, expected one of them")
	case o.pool != nil && o.Task == nil:
		r.fail(o.pool.at, o.pool, "remove it, or write a task", "pool without a task, expected one that its agents can do")
	case o.pool != nil:
		o.Task.Pool = o.pool.text
	}
	if o.Timeout == 0 {
		o.Timeout = spec.DefaultOrderTimeout
	}
	if s.maxTimeout > 0 {
		o.Timeout = min(o.Timeout, s.maxTimeout)
	}
	if o.Backoff.Kind == supervisor.NoBackoff && o.table.byName["backoff"] == nil {
		o.Backoff.Kind = supervisor.Exponential
	}
	if o.Backoff.Base == 0 {
		o.Backoff.Base = retryDelay
	}
	switch {
	case skipped:
		o.Disabled, o.Why = true, "it is in skip of [orders]"
	case o.disabled:
		o.Disabled, o.Why = true, "enabled is false"
	}
	r.gatesOf(o)
}

// gatesOf makes the gates of an order.
func (r *reader) gatesOf(o *order) {
	has := func(name string) bool { return o.table.byName[name] != nil }
	needs := []struct {
		kind spec.GateKind
		key  string
		with []string
	}{
		{spec.Cooldown, "interval", nil},
		{spec.Cron, "schedule", []string{"timezone", "catch_up"}},
		{spec.Condition, "check", []string{"check_timeout", "check_interval"}},
		{spec.Event, "on", []string{"path"}},
	}
	if o.gatesAt == nil {
		for _, n := range needs {
			if has(n.key) {
				o.gates = append(o.gates, n.kind)
			}
		}
	}
	for _, n := range needs {
		wanted := slices.Contains(o.gates, n.kind)
		if wanted && !has(n.key) {
			r.fail(o.gatesAt.at, o.gatesAt, "write "+n.key+", or another gate", "the gate %v without %s, expected it", n.kind, n.key)
		}
		for _, name := range append([]string{n.key}, n.with...) {
			if v := o.table.byName[name]; v != nil && !wanted {
				r.fail(v.key, v, "", "%s without the gate %v, expected it to be of use", name, n.kind)
			}
		}
	}
	if o.All && len(o.gates) > 1 && slices.Contains(o.gates, spec.Manual) {
		r.fail(o.gatesAt.at, o.gatesAt, "remove manual", "manual is never open, and match is all: it would never fire")
	}
	for _, kind := range o.gates {
		switch kind {
		case spec.Cron:
			for _, s := range r.schedules(o) {
				o.Gates = append(o.Gates, spec.Gate{Kind: kind, Schedule: s})
			}
		case spec.Cooldown:
			o.Gates = append(o.Gates, spec.Gate{Kind: kind, Interval: o.interval})
		case spec.Condition:
			o.Gates = append(o.Gates, spec.Gate{Kind: kind, Check: o.check, Limit: cmp.Or(o.limit, spec.DefaultCheckLimit), Every: cmp.Or(o.every, spec.DefaultCheckEvery)})
		case spec.Event:
			o.Gates = append(o.Gates, spec.Gate{Kind: kind, On: spec.EventFilter{Types: o.on, Path: o.path}})
		case spec.Manual:
			o.Gates = append(o.Gates, spec.Gate{Kind: kind})
		}
	}
	if o.All && len(o.schedules) > 1 {
		r.fail(o.schedules[1].at, o.schedules[1], "write one, or match = \"any\"", "two schedules and match is all: they would have to be due at once")
	}
}

// schedules parses the schedules of an order, with the parser that they are run by.
func (r *reader) schedules(o *order) (all []*cron.Schedule) {
	zone := time.Local
	if o.timezone != nil {
		z, err := cron.LoadZone(o.timezone.text)
		if err != nil {
			r.fail(o.timezone.at, o.timezone, "", "%v", err)
			return nil
		}
		zone = z
	}
	for _, v := range o.schedules {
		s, err := cron.Parse(v.text, zone)
		var e *cron.Error
		switch {
		case err == nil:
			all = append(all, s)
		case errors.As(err, &e) && e.Field != "":
			r.fail(v.at+1+e.Offset, v, "", "%s is %s: %s %s: %s", r.label(v), spec.Quote(v.text), e.Field, spec.Quote(e.Text), e.Msg)
		case errors.As(err, &e):
			r.fail(v.at, v, "", "%s is %s: %s", r.label(v), spec.Quote(v.text), e.Msg)
		}
	}
	return all
}

// lookFor finds out whether the directory and the commands of an order exist.
func (r *reader) lookFor(o *order) {
	info, err := os.Stat(o.Dir)
	if err != nil || !info.IsDir() {
		v := cmp.Or(o.table.byName["dir"], o.table)
		r.fail(v.at, v, "create it with mkdir", "the directory %s of the order %s does not exist", spec.Quote(o.Dir), spec.Quote(o.Name))
		return
	}
	search, own := o.Env["PATH"]
	if !own {
		search = os.Getenv("PATH")
	}
	for name, argv := range map[string][]string{"exec": o.Command, "check": o.check} {
		v := o.table.byName[name]
		if v == nil || len(argv) == 0 || argv[0] == "" {
			continue
		}
		if _, err := lookpath.Find(argv[0], o.Dir, search); err != nil {
			r.fail(v.at, v, "check the path, and whether it is executable", "the command %s of the order %s cannot be run: %v", spec.Quote(argv[0]), spec.Quote(o.Name), reason(err))
		}
	}
}
