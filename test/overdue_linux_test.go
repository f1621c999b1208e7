package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/shutdown"
)

// atSIGTERM returns an agent that does something at SIGTERM, and then ends.
func atSIGTERM(name, does string, keys ...string) string {
	return agentTOML(name, `trap '`+does+`; exit 0' TERM; echo up; while :; do sleep 0.02; done`, append([]string{`ready = { log = "up" }`}, keys...)...)
}

// meetsTOML returns an agent that ends only after another one was asked to end, too.
func meetsTOML(name, other string, keys ...string) string {
	return atSIGTERM(name, `: > `+name+`.asked; until [ -e `+other+`.asked ]; do sleep 0.02; done`, append(keys, `shutdown = { grace = "10m" }`)...)
}

// supervisorTOML returns a supervisor.
func supervisorTOML(name string, children []string, keys ...string) string {
	list, _ := json.Marshal(children)
	return "[[supervisor]]\nname = \"" + name + "\"\nchildren = " + string(list) + "\n" + strings.Join(keys, "\n") + "\n\n"
}

// All agents are stopped in parallel: one at a time, neither of these would end.
func TestDownAsksAllAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, supervisorTOML("s", []string{"b"}), meetsTOML("a", "b"), meetsTOML("b", "a"))
	f.do("up", "-d")
	if out := f.do("down"); strings.Contains(out, "did not stop") {
		t.Errorf("down says:\n%s", out)
	}
}

// The agents of a stopped supervisor are stopped in parallel, and no others.
func TestStopOfSupervisorAsksAllAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, supervisorTOML("s", []string{"a", "t"}), supervisorTOML("t", []string{"b"}), meetsTOML("a", "b"), meetsTOML("b", "a"),
		agentTOML("other", "exec sleep 1000"))
	f.do("up", "-d")
	f.do("stop", "s")
	for path, state := range map[string]string{"t/s": "stopped", "t/other": "running"} {
		if n := f.node(path); n.State != state || n.Incarnation != 1 {
			t.Errorf("%s: %+v", path, n)
		}
	}
	for _, name := range []string{"a.asked", "b.asked"} {
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f.do("start", "s")
	f.awaitState("t/s/t/b", "running")
}

// Dependencies stop after their dependants, and children of a rest_for_one supervisor in reverse
// order.
func TestDownOfDependencies(t *testing.T) {
	t.Parallel()
	writes := func(name string, keys ...string) string {
		return atSIGTERM(name, "echo "+name+" asked >> diary; sleep 0.2; echo "+name+" ends >> diary", keys...)
	}
	f := newFleet(t,
		supervisorTOML("chain", []string{"one", "two"}, `strategy = "rest_for_one"`, `depends_on = ["db"]`),
		writes("db"), writes("one"), writes("two"))
	f.do("up", "-d")
	f.do("down")
	want := []string{"two asked", "two ends", "one asked", "one ends", "db asked", "db ends"}
	if got := f.diary(); !slices.Equal(got, want) {
		t.Errorf("diary: %q, want %q", got, want)
	}
}

// Agents that do not stop in time are killed and named. Together they take no longer than one.
func TestDownOfStubbornAgents(t *testing.T) {
	t.Parallel()
	stubborn := func(name string) string {
		return agentTOML(name, `trap "" TERM; echo up; while :; do sleep 0.05; done`, `ready = { log = "up" }`)
	}
	var toml []string
	for _, name := range strings.Fields("a b c d e f g h") {
		toml = append(toml, stubborn(name))
	}
	f := newFleet(t, append(toml, "[daemon]\nshutdown_timeout = \"2s\"\n\n", agentTOML("good", "exec sleep 1000"))...)
	f.do("up", "-d")
	pid := f.node("t/c").PID
	out := f.do("down")
	if !strings.Contains(out, "t/c (process "+strconv.Itoa(pid)+") did not stop within 2") || strings.Count(out, "and was killed\n") != 8 || strings.Contains(out, "good") {
		t.Errorf("down says:\n%s", out)
	}
	f.do("up", "-d")
	late := f.events(event.AgentOverdue, "t/c")
	if len(late) != 1 || len(f.events(event.AgentOverdue, "t/good")) != 0 {
		t.Fatalf("events: %+v", late)
	}
	var data shutdown.Overdue
	if err := json.Unmarshal(late[0].Data, &data); err != nil || data.Waited < 2 || data.PID != pid {
		t.Errorf("%+v %+v: %v", late[0], data, err)
	}
	f.do("down")
}

// down stops pending starts and restarts, whatever they wait for.
func TestDownInTheMiddle(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	const quick = `shutdown = { grace = "1s" }`
	never := []string{`ready = { log = "never", timeout = "10m" }`, quick}
	for _, c := range []struct{ name, toml, state string }{
		{"a slow start", agentTOML("a", "exec sleep 1000", never...), "starting"},
		{"a slow start that does not listen", agentTOML("a", `trap "" TERM; : > up; while :; do sleep 0.05; done`, never...), "starting"},
		{"a start in tmux", agentTOML("a", "exec sleep 1000", append(never, `runtime = "tmux"`)...), "starting"},
		{"a backoff", agentTOML("a", "exit 1", `backoff = { kind = "fixed", base = "5m" }`), "restarting"},
		{"a hook before the start", agentTOML("a", "exec sleep 1000", `on_waking = { command = "sleep 1000", timeout = "10m" }`), "starting"},
		{"a hook after the start", agentTOML("a", "exec sleep 1000", `on_start = { command = "sleep 1000", timeout = "10m" }`), "starting"},
		{"a hook after a failure", agentTOML("a", "exit 1", `on_error = { command = "echo here; sleep 1000", timeout = "10m" }`), "running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.toml, "tmux") {
				needTmux(t)
			}
			f := newFleet(t, c.toml)
			up := newCoppice(t, "up")
			up.start(f.dir)
			up.out.await(t, "the socket", func() bool { return strings.Contains(up.out.String(), "up, process") })
			eventually(t, c.state, func() bool {
				out, err := f.try("ps", "--json")
				return err == nil && strings.Contains(out, `"state":"`+c.state+`"`)
			})
			if strings.Contains(c.toml, "trap") {
				f.awaitFile("up")
			}
			f.do("down")
			up.wantExit(0)
		})
	}
}
