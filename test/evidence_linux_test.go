package test

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// An agent completes a task that has a criterion with evidence, which survives the daemon and is in the events.
func TestEvidence(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	id := f.add("The login", "--pool", "a", "--done-when", "all tests pass")
	easy := f.add("easy", "--pool", "a")

	if out := f.wantAgentCode(0, "a", 1, "task", "claim", id); !strings.Contains(out, "done when: all tests pass\n") {
		t.Errorf("claim: %s", out)
	}
	if out := f.wantAgentCode(0, "a", 1, "hook"); !strings.Contains(out, "outcome completed --task "+id+" --evidence") {
		t.Errorf("hook: %s", out)
	}
	for _, args := range [][]string{{"outcome", "completed", "--summary", "believe me"}, {"task", "close", id}} {
		out := f.wantAgentCode(1, "a", 1, args...)
		if !strings.Contains(out, id+" is completed with evidence, since it is done when: all tests pass; ") {
			t.Errorf("%v: %s", args, out)
		}
	}
	out := f.wantAgentCode(exitUsage, "a", 1, "outcome", "completed", "--commit", "main")
	if !strings.Contains(out, `evidence.commit is "main", expected a full hash`) {
		t.Errorf("%s", out)
	}
	if out := f.wantAgentCode(1, "a", 1, "task", "edit", id, "--done-when", ""); !strings.Contains(out, "only a person") {
		t.Errorf("%s", out)
	}
	f.wantAgentCode(0, "a", 1, "outcome", "completed", "--evidence", "make test: 12 passed", "--commit", commit,
		"--branch", "task/login", "--pull-request", "https://example.org/pull/7")
	f.wantAgentCode(0, "a", 1, "task", "claim", easy)
	f.wantAgentCode(0, "a", 1, "task", "close", easy)
	f.crash()
	f.do("up", "-d")
	if d := f.detail(id); d.Task.Status != "closed" || len(d.Attempts) != 1 ||
		d.Attempts[0].Outcome.Evidence.Text != "make test: 12 passed" {
		t.Errorf("%+v", d)
	}
	shown := f.do("task", "show", id)
	for _, part := range []string{
		"done when  all tests pass\n", "evidence of attempt 1:\nmake test: 12 passed\ncommit " + commit +
			", branch task/login\npull request https://example.org/pull/7\n",
	} {
		if !strings.Contains(shown, part) {
			t.Errorf("no %q in\n%s", part, shown)
		}
	}
	for typ, n := range map[event.Type]int{event.TaskClosed: 2, event.AgentClaimed: 1} {
		all := f.eventsOf("--type", string(typ))
		if len(all) != n || !strings.Contains(string(all[0].Data), `"evidence":{"branch":"task/login","commit":"`+commit) {
			t.Errorf("%s: %+v", typ, all)
		}
	}
}
