package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/pipeline/workers"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// What models and files say cannot change the terminal, and each state has its words.
func TestDetailLines(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local)
	stage := pipeline.Stage{Command: []string{"claude", "-p\x1b[2J"}, Timeout: time.Minute, Tokens: 200_000,
		SkipIf: &pipeline.Rule{Mode: "evolution", Labels: []string{"a", "b"}, Paths: []string{"docs"}}}
	d := workers.Detail{
		Pipeline: workers.Info{
			Name: "fixer", Workers: 1, AtWork: 1,
			Tasks: task.PoolTasks{Pool: pools.Pool{State: pools.Probes, Probe: "t-9"}, Ready: 3},
		},
		Settings: pipeline.Settings{
			Mode:     "maintenance",
			Modes:    []pipeline.Rule{{Mode: "evolution", Priorities: []int{0, 1}}, {Mode: "evolution"}},
			Writable: []string{"/x"}, ReadOnly: []string{"/x/y"}, Stages: []pipeline.Stage{stage},
		},
		Stages: []workers.Stage{{Name: "plan", CLI: agentcli.Claude}, {Name: "implement", Worktree: true},
			{Name: "test"}, {Name: "security"}, {Name: "release"}, {Name: "archive"}},
		Unconfined: "no Landlock",
		Workers: []workers.Worker{{Path: "t/fixer/fixer-1", State: "running", At: &progress.Progress{
			Task: "t-1\x1b[31m", Attempt: 2, Since: now.Add(-time.Minute), Worktree: "/w/t-1\x1b[2J"}}},
		Attempts: []task.Tried{{Task: "t-1", Attempt: task.Attempt{
			Number: 1, By: "t/fixer/fixer-1", BeganAt: now.Add(-time.Hour), EndedAt: now.Add(-2 * time.Minute),
			Outcome: outcome.Report{Kind: outcome.Completed, Summary: "done\x1b]0;title\x07"},
		}}},
	}
	got := strings.Join(detailLines(d, now, terminal.Paint{}, 0), "\n")
	if strings.ContainsAny(got, "\x1b\x07") {
		t.Errorf("it controls the terminal: %q", got)
	}
	for _, want := range []string{
		"3 ready, 0 in progress, 0 for you; one is tried, which decides whether the others are claimed: t-9",
		"maintenance; evolution for priority 0 or 1; evolution for all tasks", "branch       checked out",
		"/x; not /x/y; not enforced: no Landlock", "evolution and label a or b and paths docs", "200,000", "(off)",
		"(Coppice merges the change)", "prepares  15:03:05, for 1m00s  /w/t-1", "58m00s",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	d.Workers, d.Unconfined = nil, ""
	d.Settings.Ports = 2
	d.Settings.PullRequest = &pipeline.PullRequest{Remote: "up\x1b[2J"}
	d.Pipeline.Tasks.Pool = pools.Pool{Name: "coder", State: pools.Paused, By: "ann", Since: now}
	got = strings.Join(detailLines(d, now, terminal.Paint{}, 0), "\n")
	for _, want := range []string{
		"paused by ann since 15:04:05; coppice pipeline resume fixer", "not /x/y; enforced by the kernel", "no workers",
		"pool         coder", "ports        2 of each worktree, from 20000 to 29999", "(a pull request in up",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestSkipText(t *testing.T) {
	for want, rule := range map[string]*pipeline.Rule{
		"-": nil, "evolution": {Mode: "evolution"}, "all tasks": {}, "label x": {Labels: []string{"x"}},
	} {
		if got := skipText(rule); got != want {
			t.Errorf("%+v: %q, want %q", rule, got, want)
		}
	}
}
