package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// budgetForm is a [[budget]] while it is read.
type budgetForm struct {
	spec.Budget
	table *toml.Value
}

func budgetTable() toml.Table[budgetForm] {
	return toml.Table[budgetForm]{
		Header: "[[budget]]",
		Doc: "What agents may use. A budget per day holds for all that it covers together, and an agent has to fit " +
			"into each budget that covers it. When one is reached, the agents are ended and wait, and people are " +
			"asked. At least one limit is required. Changes apply at once. See [Budgets](budgets.md).",
		Example: `[[budget]]
name = "night"
of = "coder"
tokens = "2m"
time = "8h"

[[budget]]
name = "attempts"
per = "task"
runs = 4

[[agent]]
name = "coder"
command = "claude -p --output-format stream-json --verbose --model opus"
`,
		Keys: []toml.Key[budgetForm]{
			{Name: "name", Type: "string", Default: toml.Required, Doc: "unique among the budgets: letters, digits, " +
				"dots, dashes and underscores", Also: []string{"id"},
				Read: toml.Text(func(b *budgetForm) *string { return &b.Name })},
			{Name: "of", Type: "string or array of strings", Default: "all agents",
				Doc: "what it covers: names or paths of agents, of pools or of supervisors above them, or patterns " +
					"of these, such as `\"night/*\"`; paths may omit the project",
				Also: []string{"agents", "agent", "paths", "path", "for", "covers", "members"},
				Read: patterns(func(b *budgetForm) *[]string { return &b.Of })},
			{Name: "quota", Type: "string", Default: "any", Doc: "only what uses the account of this " +
				"`[[quota]]`",
				Also: []string{"account"}, Read: toml.Text(func(b *budgetForm) *string { return &b.Quota })},
			{Name: "per", Type: "day, run, task", Default: "`\"day\"`",
				Doc: "what is summed up: all on a local date, each run of an agent alone, or all runs that work at " +
					"a task",
				Also: []string{"period", "scope", "window", "each"},
				Read: func(r *toml.Reader, v *toml.Value, into *budgetForm) {
					var words []string
					for _, p := range spec.Periods() {
						words = append(words, string(p))
					}
					toml.OneOf(words, func(b *budgetForm, i int) { b.Per = spec.Periods()[i] })(r, v, into)
				}},
			{Name: "tokens", Type: setting.TokensType,
				Doc: "tokens that count: input, what was written to a cache, and output, such as `\"2m\"`, " +
					"`\"500k\"` or 20000",
				Also: []string{"max_tokens"},
				Read: aboveZero(setting.ReadTokens(func(b *budgetForm) *int64 { return &b.Tokens }),
					func(b *budgetForm) bool { return b.Tokens > 0 })},
			{Name: "dollars", Type: "number", Doc: "dollars, as the command lines estimate them",
				Also: []string{"usd", "cost", "money", "max_cost"}, Read: readDollars},
			{Name: "turns", Type: "integer", Doc: "answers of the model", Also: []string{"max_turns", "messages"},
				Read: toml.Int(1, math.MaxInt32, func(b *budgetForm) *int64 { return &b.Turns })},
			{Name: "time", Type: "duration", Doc: "the time that runs take, by the wall clock",
				Also: []string{"wall_clock", "duration", "hours", "max_time", "timeout"},
				Read: toml.Duration(func(b *budgetForm) *time.Duration { return &b.Time })},
			{Name: "runs", Type: "integer", Doc: "runs that begin; not with `per = \"run\"`",
				Also: []string{"attempts", "max_runs", "starts", "tries"},
				Read: toml.Int(1, math.MaxInt32, func(b *budgetForm) *int64 { return &b.Runs })},
			{Name: "unknown", Type: "warn, refuse", Default: "`\"warn\"`",
				Doc: "whether an agent that does not report what is limited, such as the tokens of a script, is " +
					"noticed or an error",
				Read: toml.OneOf([]string{"warn", "refuse"}, func(b *budgetForm, i int) { b.Refuse = i == 1 })},
		},
	}
}

// patterns returns the read function of one or several patterns.
func patterns[T any](field func(*T) *[]string) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		for _, e := range r.Strings(v, "a pattern") {
			*field(into) = append(*field(into), e.Text)
		}
	}
}

// aboveZero adds to a read function that zero is a fault.
func aboveZero[T any](
	read func(*toml.Reader, *toml.Value, *T), is func(*T) bool,
) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		if read(r, v, into); !is(into) && !r.IsFaulty(v) {
			r.Fail(v, "", "%s is %s, expected a number above zero", r.Label(v), spec.Quote(v.Text))
		}
	}
}

// maxDollars bounds the dollars of a budget.
const maxDollars = 1e9

func readDollars(r *toml.Reader, v *toml.Value, into *budgetForm) {
	const expected = "a number of dollars above zero, such as 20 or 2.5"
	if v.Kind != toml.KindInteger && v.Kind != toml.KindFloat {
		r.Want(v, toml.KindFloat, expected)
		return
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
	if err != nil || !(n > 0 && n <= maxDollars) {
		r.Fail(v, "", "%s is %s, expected %s", r.Label(v), spec.Quote(v.Text), expected)
		return
	}
	into.Dollars = n
}

// finishBudgets checks the budgets of a tree, and returns them. tree is nil if it has faults.
func (f *file) finishBudgets(r *toml.Reader, tree *spec.Tree, quotas []spec.Quota) []spec.Budget {
	var all []spec.Budget
	for i := range f.budgets {
		all = append(all, f.budgets[i].Budget)
	}
	if tree == nil || r.Count() > 0 {
		return nil // agents that are not known could be those that are meant
	}
	faults, notices := spec.CheckBudgets(tree, all, quotas, f.root.Program != "")
	for _, p := range faults {
		f.fail(r, p, func(decl int) *toml.Value { return f.budgets[decl].table })
	}
	if len(faults) == 0 {
		for _, p := range notices {
			r.Notice(f.budgets[p.Decl].table, "%s", p.Message)
		}
	}
	return all
}

// fail reports a fault of a quota or budget.
func (f *file) fail(r *toml.Reader, p spec.Problem, table func(decl int) *toml.Value) {
	if p.Other > 0 {
		other := table(p.Other - 1)
		p.Message += fmt.Sprintf(" (that is in %s:%d)", other.Source.Name, other.Line())
	}
	if v := table(p.Decl).Find(p.Path...); !r.IsFaulty(v) {
		r.Fail(v, p.Hint, "%s", p.Message)
	}
}
