package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	morning "github.com/coppice-dev/coppice/internal/report"
)

// report returns the report of a project as JSON.
func (f *fleet) report(args ...string) (r morning.Report) {
	f.t.Helper()
	out := f.do(append([]string{"report", "--json"}, args...)...)
	if i := strings.IndexByte(out, '{'); i > 0 {
		out = out[i:] // a note that no daemon runs
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	return r
}

// A report has what was done, tried and failed, with a daemon and without. The examples of
// docs/report.md work, among them the order that writes it each morning.
func TestReport(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, tokenKeeperTOML("a"), agentTOML("b", "exit 3", `restart = "never"`), block(t, string(page), "toml"))
	begin := time.Now()
	f.try("up", "-d") // it exits with 1, since b has failed
	f.awaitState("t/b", "stopped")

	done, tried := f.add("Update", "--pool", "a", "-p", "0"), f.add("Login @all", "--pool", "a", "--max-claims", "1")
	later := f.add("Deploy", "--status", "blocked")
	f.add("Ready", "--pool", "a", "-p", "4")
	f.wantAgentCode(0, "a", 1, "task", "claim")
	f.wantAgentCode(0, "a", 1, "outcome", "completed", "--task", done)
	f.wantAgentCode(0, "a", 1, "task", "claim")
	f.wantAgentCode(0, "a", 1, "outcome", "retryable", "--task", tried, "--approach", "x", "--obstacle",
		"TestLogin fails", "--recommendation", "change the template")

	check := func(r morning.Report) {
		t.Helper()
		if c := r.Completed; c.Total != 1 || c.Shown[0].ID != done || c.Shown[0].By != "t/a" || c.Shown[0].Attempts != 1 ||
			c.Shown[0].Seconds <= 0 {
			t.Errorf("completed: %+v", c)
		}
		if c := r.Tried; c.Total != 1 || c.Shown[0].ID != tried || c.Shown[0].Outcome != outcome.Retryable ||
			c.Shown[0].Status != "parked" || c.Shown[0].Recommendation != "change the template" {
			t.Errorf("tried: %+v", c)
		}
		if w := r.Waiting; w.Total != 1 || w.Shown[0].ID != later || r.Ready != 1 {
			t.Errorf("waiting: %+v, %d ready", w, r.Ready)
		}
		if c := r.Runs.Count; c.Starts != 2 || c.Failures != 1 || r.Runs.Agents.Shown[0].Path != "t/b" {
			t.Errorf("runs: %+v", r.Runs)
		}
		needs := map[string]string{}
		for _, n := range r.Needs.Shown {
			needs[n.Subject] = n.State
		}
		if needs["t/b"] != "stopped" || needs[tried] != "parked" || (needs["daemon"] == "") != r.Serving {
			t.Errorf("needs: %+v", r.Needs)
		}
	}
	check(f.report())
	check(f.report("--since", begin.Local().Format(time.DateTime)))
	eventually(t, "a period without all that", func() bool {
		r := f.report("--since", "1ms")
		return r.Completed.Total+r.Tried.Total+r.Runs.Agents.Total == 0 && r.Needs.Total == 2
	})
	f.wantFailure(exitUsage, []string{"report", "--since", "soon"}, "--since")
	f.wantFailure(exitUsage, []string{"report", "--since", time.Now().Add(time.Hour).Format(time.RFC3339)}, "past")

	calls := 0
	for line := range strings.Lines(block(t, string(page), "sh")) {
		calls++
		if out := f.do(strings.Fields(line)[1:]...); !strings.Contains(out, tried) {
			t.Errorf("%s prints\n%s", line, out)
		}
	}
	if calls != 4 {
		t.Errorf("%d commands", calls)
	}
	f.do("order", "run", "report")
	eventually(t, "the report of the order", func() bool {
		text, err := os.ReadFile(filepath.Join(f.dir, "report.md"))
		return err == nil && strings.Contains(string(text), "# Report of `t`\n") &&
			strings.Contains(string(text), "`Login @all`")
	})

	f.do("down")
	r := f.report()
	if r.Serving || r.Needs.Shown[0].Subject != "daemon" {
		t.Errorf("%+v", r.Needs)
	}
	if r.Completed.Total != 1 || r.Tried.Total != 1 || r.Ready != 1 || r.Runs.Failures != 1 {
		t.Errorf("%+v", r)
	}
}
