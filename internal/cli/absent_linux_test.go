package cli

import (
	"strings"
	"testing"
)

// What is in a supervisor that does not run is shown all the same, with the reason.
func TestBelowWhatIsDown(t *testing.T) {
	sleep := "exec sleep 1000"
	f := newFleet(t,
		agentTOML("db", "until [ -e go ]; do sleep 0.05; done; echo ready; "+sleep, `ready = { log = "ready", timeout = "10m" }`),
		supervisorTOML("outer", []string{"inner"}, `depends_on = ["db"]`), supervisorTOML("inner", []string{"a", "b"}),
		agentTOML("a", sleep), agentTOML("b", sleep),
		agentTOML("once", "true", `restart = "never"`))
	up := launch(t, f.dir, "up", "-d")
	f.awaitStates("db starting", "outer waiting", "outer/inner waiting", "outer/inner/a waiting", "outer/inner/b waiting", "once stopped")
	if out := f.do("explain", "a"); !strings.Contains(out, "rule     t/outer is waiting: waits for t/db\n") || !strings.Contains(out, "next     t/outer: it is started as soon as t/db is ready\n") {
		t.Errorf("a explained:\n%s", out)
	}
	until(t, "the counts of all agents", func() bool {
		return strings.Contains(f.do("status"), "agents   4: 1 starting, 1 stopped, 2 waiting\n")
	})
	f.refused(exitFailure, []string{"start", "a"}, "t/outer/inner, which t/outer/inner/a is in, does not run; coppice explain t/outer/inner says why")
	f.touch("go")
	up.wantExit(0)
	if n := f.node("t/once"); n.Incarnation != 1 || n.State != "stopped" {
		t.Errorf("what has run once is %+v", n)
	}
	f.do("suspend", "outer")
	f.awaitStates("outer suspended", "outer/inner suspended", "outer/inner/a suspended", "db running")
	if out := f.do("ps", "outer/inner"); strings.Count(out, "\n") != 4 || !strings.Contains(out, "t/outer is suspended: stopped on request") {
		t.Errorf("ps:\n%s", out)
	}
	f.do("suspend")
	if out := f.do("explain", "b"); !strings.Contains(out, "rule     the project is suspended\n") || !strings.Contains(out, "hint     coppice resume\n") {
		t.Errorf("b explained:\n%s", out)
	}
	f.do("resume")
	f.do("resume", "outer")
	f.awaitStates("outer/inner/a running", "outer/inner/b running")
}
