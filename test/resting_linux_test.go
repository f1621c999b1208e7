package test

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/status"
)

// Agents in a stopped supervisor are still listed and counted, with the reason.
func TestBelowWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("db", "exec sleep 1000", "suspended = true"),
		"[[supervisor]]\nname = \"backend\"\nchildren = [\"worker\", \"inner\"]\ndepends_on = [\"db\"]\n",
		"[[supervisor]]\nname = \"inner\"\nchildren = [\"deep\"]\n\n",
		agentTOML("worker", "exec sleep 1000"), agentTOML("deep", "exec sleep 1000"))
	f.up()
	look := func(state, reason string) {
		t.Helper()
		for _, path := range []string{"t/backend", "t/backend/worker", "t/backend/inner", "t/backend/inner/deep"} {
			if n := f.node(path); n.State != state || n.Reason != reason {
				t.Errorf("%s is %s: %q, want %s: %q", path, n.State, n.Reason, state, reason)
			}
			if out := f.do("explain", path); !strings.HasPrefix(out, path+" is "+state+"\n") || !strings.Contains(out, reason) {
				t.Errorf("it is explained by %s", out)
			}
		}
	}
	look("waiting", "waits for t/db")
	if out := f.do("explain", "deep"); !strings.Contains(out, "next   it starts with t/backend/inner\n") {
		t.Errorf("what comes next: %s", out)
	}
	if s := f.status(); s.Summary["waiting"] != 2 || s.Summary["suspended"] != 1 {
		t.Errorf("counted: %v", s.Summary)
	}
	if out, err := f.try("start", "deep"); err == nil || !strings.Contains(out, "t/backend/inner/deep: its supervisor does not run; coppice explain t/backend/inner/deep says why") {
		t.Errorf("a start: %v: %s", err, out)
	}
	f.do("suspend")
	look("suspended", "the project is suspended")
	f.do("resume")
	f.edit("suspended = true", "")
	f.do("reload")
	f.awaitState("t/backend/inner/deep", "running")
	f.do("stop", "backend")
	for _, path := range []string{"t/backend/worker", "t/backend/inner/deep"} {
		if n := f.node(path); n.State != "stopped" || n.Reason != "t/backend is stopped" || n.Incarnation != 1 {
			t.Errorf("%s in what was stopped by hand: %+v", path, n)
		}
	}
}

// A completed agent keeps the number of its last incarnation.
func TestEndedForGood(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("once", "exit 3", `restart = "never"`), agentTOML("a", "exec sleep 1000"))
	f.up()
	if n := f.awaitState("t/once", "stopped"); n.Incarnation != 1 {
		t.Errorf("%+v", n)
	}
	if out := f.do("explain", "once"); !strings.Contains(out, "its last exit: exit code 3\nnext   it stays stopped\n") {
		t.Error(out)
	}
}

// State of a run ends with it: a later daemon starts everything, and reports nothing from before.
func TestUpAfterRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("first", "exit 0", `restart = "never"`), agentTOML("last", "sleep 0.1", `restart = "never"`, `depends_on = ["first"]`))
	f.do("run")
	f.do("up", "-d")
	for _, path := range []string{"t/first", "t/last"} {
		f.awaitNode(path, "the end of another life", func(n status.Node) bool { return n.State == "stopped" && n.Incarnation == 2 })
	}
	if out := f.do("events"); strings.Contains(out, "noticed later") || strings.Contains(out, "taken over, ") {
		t.Errorf("events:\n%s", out)
	}
}
