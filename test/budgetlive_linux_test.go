package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/fakeagent"
)

// A run that calls tools without end is ended while it goes on, whatever its command line reports on the way, in a
// terminal, too. It has not failed, and its agent waits for a person.
func TestBudgetEndsLoops(t *testing.T) {
	t.Parallel()
	const limit = 5000
	toml := fmt.Sprintf("[[budget]]\nname = \"run\"\nper = \"run\"\ntokens = %d\n", limit)
	agents := map[string]string{
		"claude":   `"claude", "-p", "--output-format", "stream-json", "--verbose", "do it"`,
		"codex":    `"codex", "exec", "--json", "do it"`,
		"gemini":   `"gemini", "--output-format", "stream-json", "-p", "do it"`,
		"opencode": `"opencode", "run", "--format", "json", "do it"`,
		"copilot":  `"copilot", "--output-format", "json", "--allow-all-tools", "-p", "do it"`,
		"screen":   `"codex", "exec", "--json", "do it"`,
	}
	for name, command := range agents {
		toml += fmt.Sprintf("[[agent]]\nname = %q\ndir = %[1]q\ncommand = [%s]\nrestart = \"always\"\n", name, command)
		if name == "screen" {
			toml += "runtime = \"tmux\"\n"
		}
	}
	toml += "[[agent]]\naidefile = \"aide\"\n"
	agents["aide"] = ""
	r := newFakeRun(t)
	write(t, filepath.Join(r.dir, "coppice.toml"), "[project]\nname = \"t\"\n"+toml)
	for name := range agents {
		if err := os.Mkdir(filepath.Join(r.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(r.dir, "aide", "Aidefile"), "cli = \"claude\"\n")
	run := r.run("--fake", "loop,pace=8s")
	run.out.awaitText(t, "t * started\n")
	for name := range agents {
		n := r.awaitState("t/"+name, "waiting")
		if n.Failed || !strings.HasPrefix(n.Reason, "budget run: ") ||
			!strings.Contains(n.Reason, "of 5,000 tokens in a run; waits until a person has acted") {
			t.Errorf("%s: %+v", name, n)
		}
	}
	rows := r.costs().Rows
	for _, row := range rows {
		over := int64(2)
		if row.Name == "t/aide" { // it reports each second
			over = 4
		}
		most := limit + over*fakeagent.MessageTokens
		if row.Tokens == nil || *row.Tokens < limit || *row.Tokens > most || row.Calls != 1 {
			t.Errorf("%+v", row)
		}
	}
	if b := r.budgets()["run"]; b.State != budget.Reached || len(b.Waiting) != len(agents) || len(rows) != len(agents) {
		t.Errorf("%+v, %+v", b, rows)
	}
	if all := r.eventsOf("--type", string(event.AgentCrashed)); len(all) > 0 {
		t.Errorf("%v", all)
	}
	run.signal(syscall.SIGTERM)
	run.exit()
}
