package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestBudgetTables(t *testing.T) {
	tree, err := Parse("f/coppice.toml", []byte(`[[budget]]
name = "night"
of = ["night", "p/*"]
tokens = "1.5m"
dollars = 20
turns = 500
time = "8h"
runs = 40
[[budget]]
name = "each"
per = "run"
quota = "main"
dollars = 0.25
tokens = 7
[[quota]]
name = "main"
cli = "claude"
`+quotaFleet))
	if err != nil {
		t.Fatal(err)
	}
	expected := []spec.Budget{
		{Name: "night", Of: []string{"night", "p/*"}, Per: spec.PerDay, Tokens: 1_500_000, Dollars: 20, Turns: 500,
			Time: 8 * time.Hour, Runs: 40},
		{Name: "each", Per: spec.PerRun, Quota: "main", Dollars: 0.25, Tokens: 7},
	}
	if !reflect.DeepEqual(tree.Budgets, expected) {
		t.Errorf("%+v", tree.Budgets)
	}
	for path, covered := range map[string][2]bool{
		"f/night/a": {true, true}, "f/p/p-1": {true, true}, "f/c": {false, true}, "f/night": {true, true},
	} {
		for i, is := range covered {
			if b := tree.Budgets[i]; b.Covers(path) != is {
				t.Errorf("%s covers %s: %v", b.Name, path, !is)
			}
		}
	}
}

func TestBadBudgets(t *testing.T) {
	const head = "[[budget]]\nname = \"n\"\n"
	const main = head + "turns = 1\n"
	for _, c := range []struct{ text, expected string }{
		{head, `1:3: the budget "n" limits nothing, expected tokens, dollars, turns, time or runs`},
		{"[[budget]]\ntokens = 1\n", `1:3: [[budget]] without name, expected one (string)`},
		{main + main,
			`5:8: the name "n" is taken by another budget, expected another one (that is in f/coppice.toml:1)`},
		{"[[budget]]\nname = \"a b\"\nturns = 1\n",
			`2:8: the name "a b", expected letters, digits, dots, dashes and underscores`},
		{head + "token = 1\n", `3:1: unknown key "token" in [[budget]]; did you mean "tokens"?`},
		{head + "usd = 1\n", `3:1: unknown key "usd" in [[budget]]; did you mean "dollars"?`},
		{head + "tokens = 0\n", `3:10: tokens is "0", expected a number above zero`},
		{head + "tokens = \"0k\"\n", `3:10: tokens is "0k", expected a number above zero`},
		{head + "tokens = -5\n", `3:10: tokens is -5, expected a number of tokens such as "200k", "1m" or "500000"`},
		{head + "tokens = \"many\"\n", `3:10: tokens is "many", expected a number of tokens`},
		{head + "dollars = 0.0\n",
			`3:11: dollars is "0.0", expected a number of dollars above zero, such as 20 or 2.5`},
		{head + "dollars = -1\n", `3:11: dollars is "-1", expected a number of dollars above zero`},
		{head + "dollars = nan\n", `3:11: dollars is "nan", expected a number of dollars above zero`},
		{head + "dollars = \"20\"\n", `3:11: dollars is a string, expected a number of dollars above zero`},
		{head + "turns = 0\n", `3:9: turns is 0, expected an integer from 1 to `},
		{head + "time = \"0s\"\n", `3:8: time is "0s", expected a duration above zero`},
		{head + "time = 8\n", `3:8: time is a number without a unit`},
		{head + "runs = -1\n", `3:8: runs is -1, expected an integer from 1 to `},
		{head + "per = \"run\"\nruns = 2\n",
			`4:8: runs is 2, expected none where the budget is per run; write per = "day" or per = "task"`},
		{main + "per = \"days\"\n", `4:7: per is "days", expected one of day, run, task; did you mean "day"?`},
		{main + "unknown = \"fail\"\n", `4:11: unknown is "fail", expected one of warn, refuse`},
		{main + "of = \"nigth\"\n",
			`4:6: "nigth" matches no agent, expected the name or path of agents, or a pattern; did you mean "night"?`},
		{main + "of = [\"a\", \"[\"]\n",
			`4:12: "[" is not a pattern, expected the name or path of agents, such as "night/*"`},
		{main + "quota = \"mian\"\n[[quota]]\nname = \"main\"\ncli = \"claude\"\n",
			`4:9: there is no quota "mian", expected the name of one; did you mean "main"?`},
		{main + "unknown = \"refuse\"\n[[agent]]\nname = \"plain\"\ncommand = \"true\"\n",
			`1:3: the budget "n" covers what does not report all that it limits: ` +
				`f/plain (plain: turns); such use is not counted`},
		{head + "tokens = 1\ndollars = 1\nunknown = \"refuse\"\nof = \"d\"\n", `f/d (codex: dollars)`},
		{strings.Repeat(main, spec.MaxBudgets+1),
			"there are 101 budgets with 0 patterns, expected at most 100 and 1000"},
	} {
		_, err := load("f/coppice.toml", "/f", []byte(c.text+quotaFleet), nil, false)
		if got := errorText(err); !strings.Contains(got, c.expected) {
			t.Errorf("%s\n%s\nexpected %s", c.text, got, c.expected)
		}
	}
	l, err := load("f/coppice.toml", "/f", []byte(main+"[[agent]]\nname = \"plain\"\ncommand = \"true\"\n"+quotaFleet),
		nil, false)
	if err != nil || len(l.Notices) != 1 || !strings.Contains(l.Notices[0].Message, "f/plain (plain: turns)") {
		t.Errorf("%v, %v", l.Notices, err)
	}
}
