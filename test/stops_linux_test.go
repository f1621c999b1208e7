package test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// noProcesses fails the test if a process of the project is left after a command has reported that
// everything stopped. Killed processes take a moment to end, and shims end on their own.
func (f *fleet) noProcesses() {
	f.t.Helper()
	for _, p := range processesIn(f.t, f.dir) {
		if !strings.Contains(p.name, "coppice") {
			p.awaitEnd(f.t)
		}
	}
}

// down stops the agents and order runs of a killed daemon in the order of the fleet, and names
// those that do not stop.
func TestDownAfterAKilledDaemon(t *testing.T) {
	t.Parallel()
	writes := func(name string, keys ...string) string {
		return atSIGTERM(name, "echo "+name+" asked >> diary; sleep 0.2; echo "+name+" ends >> diary", keys...)
	}
	f := newFleet(t, "[daemon]\nshutdown_timeout = \"20s\"\n\n",
		writes("db"), writes("api", `depends_on = ["db"]`), writes("web", `depends_on = ["api"]`),
		agentTOML("stubborn", `trap "" TERM; echo up; while :; do sleep 0.05; done`, `ready = { log = "up" }`, `shutdown = { grace = "100ms" }`),
		"[[order]]\nname = \"long\"\ngate = \"manual\"\nexec = \": > begun; exec sleep 1000\"\n")
	f.do("up", "-d")
	f.do("order", "run", "long")
	f.awaitFile("begun")
	f.crash()
	out := f.do("down")
	want := []string{"web asked", "web ends", "api asked", "api ends", "db asked", "db ends"}
	if got := f.diary(); !slices.Equal(got, want) {
		t.Errorf("diary: %q, want %q", got, want)
	}
	if !strings.Contains(out, "4 agents and 1 run of orders without a daemon, all stopped") || !strings.Contains(out, "t/stubborn (process ") || strings.Count(out, "was killed\n") != 1 {
		t.Errorf("down says:\n%s", out)
	}
	f.noProcesses()
	f.do("up", "-d")
	f.awaitStates("web running", "stubborn running")
	f.do("down")
}

// Runs of orders are stopped even if nothing else runs.
func TestDownAfterAKilledDaemonOfOrdersAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "exec sleep 1000", "suspended = true"),
		"[[order]]\nname = \"long\"\ngate = \"manual\"\nexec = \": > begun; exec sleep 1000\"\n")
	f.do("up", "-d")
	f.do("order", "run", "long")
	f.awaitFile("begun")
	f.crash()
	if out := f.do("down"); !strings.Contains(out, "0 agents and 1 run of orders without a daemon, all stopped") {
		t.Errorf("down says:\n%s", out)
	}
	f.noProcesses()
	f.do("up", "-d") // which records how the run ended
	f.awaitEvent(event.OrderFailed, "orders/long", 0)
	f.do("down")
}

// Nothing is left of agents and runs of orders that were lost with their shims while no daemon ran, and down names the
// agents, also if the state of a slot is damaged. What has ended before is not lost.
func TestDownAfterKilledShims(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("lost", `setsid sh -c 'echo up; sleep 1000; true' & sleep 1000; true`, `ready = { log = "up" }`),
		agentTOML("ended", "exit 0", `restart = "never"`), agentTOML("torn", "sleep 1000; true"),
		"[[order]]\nname = \"long\"\ngate = \"manual\"\nexec = \": > begun; sleep 1000; true\"\n")
	f.do("up", "-d")
	f.awaitStates("lost running", "ended stopped", "torn running")
	f.do("order", "run", "long")
	f.awaitFile("begun")
	f.crash()
	for _, pid := range append(f.shims(), shimsOf(t, f.state("errands"))...) {
		killAndWait(t, pid)
	}
	if n := f.countProcesses("sleep 1000"); n == 0 {
		t.Fatal("nothing was left behind")
	}
	slot, err := wire.DirName("t/torn")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(f.state("run"), slot, wire.LockFile), "?")
	if out := f.do("down", "--keep-agents"); out != "already down: no daemon is running\n" {
		t.Errorf("down --keep-agents says:\n%s", out)
	}
	out, errs := coppice(t, f.dir, 0, "down")
	want := "t/lost was lost; what it left behind was killed\n" +
		"t/torn was lost; what it left behind was killed\n" +
		"already down: no daemon is running, and no agents\n"
	if out != want || !strings.Contains(errs, "cannot read the state of a slot") {
		t.Errorf("down says %q, want %q, and a warning: %s", out, want, errs)
	}
	f.noProcesses()
	if out := f.do("down"); out != "already down: no daemon is running, and no agents\n" {
		t.Errorf("down says %q the second time", out)
	}
	f.do("up", "-d")
	f.awaitEvent(event.OrderFailed, "orders/long", 0)
	f.awaitHistory("agent.started t/lost 2")
	told, _ := f.history()
	for what, want := range map[string]int{"agent.lost t/lost 1": 1, "agent.adopted t/lost 1": 0} {
		if told[what] != want {
			t.Errorf("%s: %d times, want %d", what, told[what], want)
		}
	}
}

// If the daemon is killed while it stops everything, down continues without it.
func TestDownOfADaemonKilledMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, atSIGTERM("a", ": > asked; until [ -e go ]; do sleep 0.02; done", `shutdown = { grace = "100s" }`),
		agentTOML("b", "exec sleep 1000"))
	f.do("up", "-d")
	down := newCoppice(t, "down")
	down.start(f.dir)
	f.awaitFile("asked")
	f.crash()
	write(t, filepath.Join(f.dir, "go"), "")
	down.wantExit(0)
	if out := down.out.String(); !strings.Contains(out, "t is down; all agents are stopped") {
		t.Errorf("down says:\n%s", out)
	}
	f.noProcesses()
}

// Two concurrent downs both report the end. Nothing is left of agents that detach processes, or of
// those that are starting.
func TestDownTwiceAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("forks", `setsid sleep 1000 & (setsid sleep 1000 &) ; trap "" TERM; echo up; while :; do sleep 0.05; done`, `ready = { log = "up" }`),
		agentTOML("starts", "exec sleep 1000", `ready = { log = "never", timeout = "10m" }`),
		agentTOML("waits", "exec sleep 1000", `depends_on = ["starts"]`),
		supervisorTOML("s", []string{"x", "y"}, `strategy = "one_for_all"`), agentTOML("x", "exec sleep 1000"), agentTOML("y", "exec sleep 1000", `depends_on = ["starts"]`))
	up := newCoppice(t, "up")
	up.start(f.dir)
	up.out.await(t, "the socket", func() bool { return strings.Contains(up.out.String(), "up, process") })
	f.awaitStates("forks running", "starts starting", "waits waiting", "s/x running", "s/y waiting")
	one, other := newCoppice(t, "down"), newCoppice(t, "down")
	one.start(f.dir)
	other.start(f.dir)
	for _, down := range []*childProcess{one, other} {
		down.exit()
		if out := down.out.String() + down.err.String(); !strings.Contains(out, "t is down") && !strings.Contains(out, "no daemon") {
			t.Errorf("down says:\n%s", out)
		}
	}
	if code := up.exit(); code != 0 && code != 1 { // the second may arrive in time to kill them
		t.Errorf("exit code %d: %s", code, up.err)
	}
	f.noProcesses()
}
