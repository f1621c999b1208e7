package look

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/quota"
)

// The example in docs/quotas.md is what a parked quota looks like.
func TestQuotaLines(t *testing.T) {
	page, err := os.ReadFile("../../../docs/quotas.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "$ coppice quota ls\n")
	shown, _, _ = strings.Cut(shown, "```")
	at := func(clock string) time.Time {
		got, err := time.ParseInLocation(time.DateTime, "2026-11-23 "+clock, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	q := quota.Info{
		Name: "claude", State: quota.Parked, Obstacle: "usage_limit", Reason: "You've hit your 5-hour limit", Agent: "night/c2",
		Since: at("01:04:41"), Until: at("03:04:58"), Reset: at("03:04:41"), ResetFrom: "reported by claude in its output",
		Waiting: []string{"night/c0", "night/c1", "night/c2"},
	}
	if got := strings.Join(quotaLines([]quota.Info{q}, at("01:05:00"), terminal.Paint{}, 0), "\n") + "\n"; got != shown {
		t.Errorf("it is\n%s\nthe page shows\n%s", got, shown)
	}
	_, shown, _ = strings.Cut(string(page), "$ coppice quota ls\nmain")
	shown, _, _ = strings.Cut(shown, "```")
	main, spare, reviews := q, quota.Info{Name: "spare", CLI: "claude", State: quota.Open}, quota.Info{Name: "reviews", CLI: "codex", State: quota.Open}
	main.Name, main.CLI, main.Next, main.Agent, main.Waiting = "main", "claude", "spare", "night/coder", nil
	spare.Agents, reviews.Agents = []string{"night/coder"}, []string{"night/reviewer-1"}
	if got := strings.Join(quotaLines([]quota.Info{main, spare, reviews}, at("01:05:00"), terminal.Paint{}, 0), "\n") + "\n"; got != "main"+shown {
		t.Errorf("it is\n%s\nthe page shows\n%s", got, "main"+shown)
	}
	_, shown, _ = strings.Cut(string(page), "$ coppice quota ls\nclaude open")
	shown, _, _ = strings.Cut(shown, "```")
	open := quota.Info{Name: "claude", State: quota.Open, Told: at("01:03:00"), Used: []quota.Window{
		{Name: "five_hour", Used: 0.639, Reset: at("03:04:41")},
		{Name: "seven_day", Used: 0.2, Reset: at("09:00:00").AddDate(0, 0, 4)},
	}}
	got := strings.Join(quotaLines([]quota.Info{open}, at("01:05:00"), terminal.Paint{}, 0), "\n") + "\n"
	if got != "claude open"+shown {
		t.Errorf("it is\n%s\nthe page shows\n%s", got, "claude open"+shown)
	}
	q.State, q.Reset, q.Until, q.Waiting = quota.Probing, time.Time{}, time.Time{}, []string{"a", "b", "c", "d", "e", "f"}
	q.First = "night/c0"
	got = strings.Join(quotaLines([]quota.Info{q}, at("01:05:00"), terminal.Paint{}, 60), "\n")
	for _, part := range []string{"night/c0 tries first", "6 agents: a, b, c, d, e, ..."} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
	if got := quotaLines(nil, time.Now(), terminal.Paint{}, 0); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
