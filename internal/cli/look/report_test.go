package look

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/report"
	"github.com/coppice-dev/coppice/internal/task"
)

// listOf returns a list of one entry.
func listOf[T any](one T) report.List[T] { return report.List[T]{Total: 1, Shown: []T{one}} }

// The report in docs/report.md is what the command prints.
func TestReportLines(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 8, 0, 0, 0, time.Local)
	count := report.Count{Starts: 3, Restarts: 2, Failures: 1}
	r := report.Report{
		Project: "shop", Since: now.AddDate(0, 0, -1), Until: now,
		Needs: listOf(report.Need{
			Subject: "shop-9fj", State: "parked", Text: "Fix the login (claimed 3 times without a result)",
			Command: "coppice task show shop-9fj",
		}),
		Completed: listOf(report.Task{
			ID: "shop-x4k", Title: "Update the docs", Status: task.Closed, By: "shop/coder", Attempts: 1, Seconds: 250,
			EndedAt: time.Date(2026, 11, 28, 2, 11, 40, 0, time.Local),
			Change:  &report.Change{Branch: "main", Commit: "9a1f2c44d0", Files: 2, Insertions: 31, Deletions: 4},
		}),
		Tried: listOf(report.Task{
			ID: "shop-9fj", Title: "Fix the login", Status: task.Parked, By: "shop/coder", Attempts: 3, Seconds: 1264,
			Outcome: outcome.Retryable, Obstacle: "verification failed: TestLogin fails",
			Recommendation: "change the template, not the generated file",
		}),
		Runs: report.Runs{Count: count, Agents: listOf(report.Agent{
			Path: "shop/coder", Count: count, LastFailure: "ended after 7m02s: exit code 1; restarted at once",
		})},
	}
	_, want, _ := strings.Cut(string(page), "$ coppice report\n")
	want, _, _ = strings.Cut(want, "```")
	got := strings.Join(reportLines(r, terminal.Paint{}, 0), "\n") + "\n"
	if got != want {
		t.Errorf("it is\n%s\nthe page shows\n%s", got, want)
	}

	// What is not shown is counted, and what is longer than the list can be, too.
	r.Waiting = listOf(report.Waiting{ID: "shop-1", Title: "Later", Status: task.Deferred, Until: now.Add(time.Hour)})
	r.Waiting.Total, r.Waiting.AtLeast = 20_000, true
	r.Runs.Until = now
	got = strings.Join(reportLines(r, terminal.Paint{}, 60), "\n")
	for _, part := range []string{"\n  shop-1  deferred  09:00:00  -    Later\n  and at least 19,999 more\n",
		"\n  counted until 08:00:00, the first 100,000 events"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	for line := range strings.Lines(got) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 60 {
			t.Errorf("too wide: %q", line)
		}
	}
}
