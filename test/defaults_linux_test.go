package test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// With default settings, an agent that exits at once ends neither the run nor the daemon.
func TestOneAgentLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	const agents = "[[agent]]\nname = \"a\"\ncommand = \"sleep 1000\"\n\n[[agent]]\nname = \"hello\"\ncommand = \"echo hello\"\n\n"
	for name, tables := range map[string]string{"no table": "", "empty tables": "[daemon]\n[supervision]\n"} {
		t.Run("run, "+name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, agents, tables)
			r := launch(t, f.dir, "run")
			r.out.await(t, "some restarts", func() bool { return strings.Count(r.out.String(), "t/hello * restarted") >= 6 })
			if n := f.node("t/a"); n.State != "running" || n.Incarnation != 1 {
				t.Errorf("the other one: %+v", n)
			}
			r.signal(syscall.SIGINT)
			r.wantExit(130)
		})
		t.Run("up, "+name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, agents, tables)
			f.up()
			eventually(t, "some restarts", func() bool { return f.node("t/hello").Incarnation >= 4 })
			if n := f.node("t/a"); n.State != "running" || n.Incarnation != 1 {
				t.Errorf("the other one: %+v", n)
			}
			out := f.do("status")
			for _, want := range []string{"t/hello restart loop: it keeps ending with exit code 0", `restart = "on-failure"`, "-> coppice logs t/hello"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}

// up -d exits with 1 if an agent does not run, names it with the reason, and leaves the daemon up.
func TestUpNamesWhatIsNotWell(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("well", `exec sleep 1000`),
		agentTOML("done", `exit 0`, `restart = "on-failure"`),
		agentTOML("loops", `exit 0`, `backoff = { kind = "fixed", base = "5m" }`),
		agentTOML("crashes", `echo no luck; exit 3`, `backoff = { kind = "fixed", base = "5m" }`),
		agentTOML("unready", `exec sleep 1000`, `ready = { log = "never", timeout = "100ms" }`, `backoff = { kind = "fixed", base = "5m" }`))
	out, err := f.try("up", "-d")
	if err == nil {
		t.Errorf("up -d succeeds")
	}
	for _, want := range []string{
		"t is up: 1 of 5 agents running", "not well:",
		`t/loops restarting: it ended with exit code 0; restart = "on-failure" would leave it stopped; 1/20 starts in 1h`, "-> coppice explain t/loops",
		"t/crashes restarting: exit code 3; 1/20 starts in 1h", "| no luck", "-> coppice logs t/crashes",
		"t/unready restarting: not ready within the start timeout: no line of output matched \"never\"; 1/20 starts in 1h",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "t/well") || strings.Contains(out, "t/done") {
		t.Errorf("it names what is well:\n%s", out)
	}
	if n := f.node("t/well"); n.State != "running" {
		t.Errorf("%+v", n)
	}
	if out, err := f.try("up", "-d"); err != nil || !strings.Contains(out, "is already up") || !strings.Contains(out, "t/crashes restarting") {
		t.Errorf("once more: %v: %s", err, out)
	}
}

// A quarantined agent runs soon after the file was repaired.
func TestRepairedAgentIsReleased(t *testing.T) {
	t.Parallel()
	broken := agentTOML("a", `echo no such table; echo; exit 3`, "max_restarts = 2")
	f := newFleet(t, broken)
	f.up()
	f.awaitState("t/a", "quarantined")
	out := f.do("status")
	for _, want := range []string{"t/a quarantined: exit code 3; 2/2 starts in 1h", "| no such table\n", "coppice reset t/a"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	f.awaitAfter(event.AgentDrifted, "changed since it failed: command", func() {
		f.rewrite(agentTOML("a", `exec sleep 1000`, "max_restarts = 2"))
	})
	f.awaitState("t/a", "running")
	if out := f.do("ps"); strings.Contains(out, "limit reached") {
		t.Errorf("what it was held for is said of what runs:\n%s", out)
	}
}
