package look

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
)

// Bars and numbers of budgets, however much is used; docs/budgets.md has an example.
func TestBudgetLines(t *testing.T) {
	now := time.Date(2026, 11, 23, 1, 5, 0, 0, time.Local)
	all := []budget.Info{{
		Name: "each\x1b[31m", Of: []string{"a", "b/*"}, Quota: "main", Per: "run", State: budget.Reached, Since: now,
		Limits: []budget.Measure{
			{Limit: "time", Used: 27000, Max: 28800}, {Limit: "tokens", Used: 9e15, Max: 1, Unknown: 1},
			{Limit: "turns", Used: 0, Max: 500, Unknown: 12},
		},
		Reason: "budget each\x1b[31m: 8h01m of 8h00m time in a run",
		Parked: []string{"t/a"}, Unknown: []string{"t/s: turns"},
	}, {
		Name: "task", Per: "task", State: budget.Reached, Since: now,
		Limits: []budget.Measure{{Limit: "runs", Used: 3, Max: 3}},
		Tasks:  []string{"t-1", "t-2"},
	}, {
		Name: "day", Per: "day", State: budget.Open, Raised: 2,
		Limits: []budget.Measure{{Limit: "dollars", Used: 1.234, Max: 20}},
	}}
	const expected = `each reached, per run
  of      a, b/*
  quota   main
  time    [##################..]  93%  7h30m of 8h00m
  tokens  [####################] 999%  >= 9,000,000,000,000,000 of 1, 1 call unknown
  turns   [....................]   0%  >= 0 of 500, 12 calls unknown
  reason  8h01m of 8h00m time in a run
  since   01:05:00
  until   a person acts: coppice budget raise each
  waiting 1 agent: t/a
  unknown t/s: turns
task reached, per task
  runs    [####################] 100%  3 of 3
  since   01:05:00
  until   a person acts: coppice budget raise task
  parked  t-1, t-2
day open, per day, raised 2 times today
  dollars [#...................]   6%  1.23 of 20.00`
	if got := strings.Join(budgetLines(all, now, terminal.Paint{}, 0), "\n"); got != expected {
		t.Errorf("it is\n%q\nexpected\n%q", got, expected)
	}
	if got := budgetLines(nil, now, terminal.Paint{}, 0); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
