package test

import (
	"strings"
	"testing"
)

// explain names what keeps an agent from running, also through supervisors.
func TestExplainDependency(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("api", "exec sleep 1000", `depends_on = ["back"]`),
		supervisorTOML("back", []string{"db", "cache"}),
		agentTOML("db", "exit 7", `backoff = { kind = "fixed", base = "5m" }`),
		agentTOML("cache", "read x <go; echo up; exec sleep 1000", `ready = { log = "up" }`))
	release := fifo(t, f.dir, "go")
	f.up()
	f.awaitStates("back/db restarting")
	release() // not earlier, or back would be ready while both run
	f.awaitStates("back/cache running")
	eventually(t, "the wait", func() bool { return strings.Contains(f.explain("t/api").Rule, "waits for") })
	x := f.explain("t/api")
	evidence := strings.Join(x.Evidence, "\n")
	if x.Rule != "it waits for t/back" || !strings.Contains(x.Next, "as soon as t/back is ready") || x.Hint != "coppice explain t/back" ||
		!strings.Contains(evidence, "t/back/db is restarting") || !strings.Contains(evidence, "exit code 7") || strings.Contains(evidence, "cache") {
		t.Errorf("%+v", x)
	}
	if out := f.do("ps"); !strings.Contains(out, "waits for t/back") {
		t.Errorf("ps says:\n%s", out)
	}
}

func TestExplainIdle(t *testing.T) {
	t.Parallel()
	f := newFleet(t, idlerTOML("a", "max_restarts = 2", `restart_window = "1h"`), agentTOML("b", "echo up; exec sleep 1000", `idle_timeout = "1h"`))
	f.up()
	f.awaitState("t/a", "quarantined")
	if e := strings.Join(f.explain("t/a").Evidence, "\n"); !strings.Contains(e, "killed 2 times because it was idle, last at 20") {
		t.Errorf("evidence:\n%s", e)
	}
	if e := strings.Join(f.explain("t/b").Evidence, "\n"); !strings.Contains(e, "its idle_timeout is 1h") || strings.Contains(e, "killed") {
		t.Errorf("evidence:\n%s", e)
	}
}
