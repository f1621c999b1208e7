package test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// A manual stop and a suspension are distinct. A stop lasts until a start, across reloads, resumes,
// crashes and daemons. A resume brings back exactly what was suspended. Each stop has its true
// reason.
func TestStoppedAndSuspended(t *testing.T) {
	t.Parallel()
	sleep := "exec sleep 1000"
	a, b := agentTOML("a", sleep), agentTOML("b", sleep)
	rest := supervisorTOML("s", []string{"c", "d", "once"}) + agentTOML("c", sleep) + agentTOML("d", sleep) +
		agentTOML("once", "exit 0", `restart = "on-failure"`)
	f := newFleet(t, a, b, rest)
	f.up()
	f.awaitState("t/s/once", "stopped")
	want := func(when string, states ...string) {
		t.Helper()
		f.awaitStates(states...)
		inS := f.node("t/s").State == "running" // otherwise the reason of its children is that of s
		for path, hand := range map[string]bool{"t/a": true, "t/s/d": inS, "t/b": false, "t/s/c": false, "t/s/once": false} {
			if n := f.node(path); n.StoppedByHand != hand {
				t.Errorf("%s, %s is stopped by hand: %v", when, path, n.StoppedByHand)
			}
		}
	}
	f.do("stop", "a", "d")
	want("at first", "a stopped", "b running", "s running", "s/d stopped")
	if n := f.node("t"); n.State != "running" {
		t.Errorf("the root is %s while something runs", n.State)
	}
	if out := f.wantCode(1, "resume", "a"); !strings.Contains(out, "t/a was stopped by hand, not suspended; start it with: coppice start t/a") {
		t.Errorf("a resume of what was stopped: %s", out)
	}
	if out := f.do("suspend", "a"); out != "t/a is already stopped\n" {
		t.Errorf("a suspension of what was stopped: %s", out)
	}
	f.do("suspend", "b", "c") // individually
	f.awaitStates("a stopped", "b suspended", "s suspended", "s/c suspended", "s/d stopped", "s/once stopped")
	if root := f.node("t"); root.State != "suspended" || root.Reason != "nothing in it runs" {
		t.Errorf("the root, with nothing that runs: %+v", root)
	}
	for _, command := range []string{"ps", "tree"} {
		line, _, _ := strings.Cut(strings.SplitN(f.do(command), "\n", 2)[1], "\n")
		if !strings.Contains(line, " suspended ") {
			t.Errorf("%s shows the root as %q", command, line)
		}
	}
	if x := f.explain("t/a"); x.Hint != "coppice start t/a" || x.Rule != "stopped by hand" {
		t.Errorf("what was stopped: %+v", x)
	}
	if x := f.explain("t/b"); x.Hint != "coppice resume t/b" {
		t.Errorf("what was suspended: %+v", x)
	}
	if out := f.do("resume", "s"); out != "s resumed\n" {
		t.Errorf("resuming what is in s: %s", out)
	}
	want("with s", "s/c running", "s/d stopped", "b suspended")
	f.do("suspend", "s") // the whole supervisor
	want("s as a whole", "s suspended", "s/c suspended")
	f.do("resume", "s")
	want("and again", "s running", "s/c running", "s/d stopped", "s/once stopped")
	if n := f.node("t/s/once"); n.Incarnation != 1 {
		t.Errorf("what had ended for good has run again: %+v", n)
	}
	f.do("suspend", "s")

	f.replace("[project]\nname = \"t\"\n\n" + agentTOML("a", sleep, `env = { MODEL = "other" }`) + b + rest)
	f.do("reload")
	want("after a change", "a stopped", "b suspended", "s suspended")
	f.crash()
	f.do("up", "-d")
	want("after a crash", "a stopped", "b suspended", "s suspended")
	f.do("down")
	f.wantStates(map[string]string{"t/a": "stopped", "t/b": "suspended", "t/s": "suspended", "t/s/d": "stopped"})
	if out := f.do("explain", "a"); !strings.Contains(out, "do     coppice up -d, then coppice start t/a\n") {
		t.Errorf("without a daemon explain says:\n%s", out)
	}
	if out := f.do("up", "-d"); !strings.Contains(out, "; stopped by hand: t/a") {
		t.Errorf("up says: %s", out)
	}
	want("after an end", "a stopped", "b suspended", "s suspended")
	if out := f.do("resume"); !strings.Contains(out, "the project is resumed") {
		t.Errorf("resume says: %s", out)
	}
	want("resumed", "a stopped", "b running", "s/c running", "s/d stopped")
	f.do("suspend")
	f.awaitStates("a stopped", "b suspended", "s suspended", "s/c suspended")
	f.do("resume")
	want("the project", "a stopped", "b running", "s/c running", "s/d stopped")
	f.do("restart", "b")
	f.do("start", "a", "d")
	f.awaitStates("a running", "s/d running")
	f.replace("[project]\nname = \"t\"\n\n" + agentTOML("a", sleep, `env = { MODEL = "third" }`) + rest)
	f.do("reload")
	f.awaitEvent(event.AgentRemoved, "t/b", 0)
	f.awaitEvent(event.AgentDrifted, "t/a", 0)
	f.awaitStates("a running")

	reasons := func(path string) (all []string) {
		for _, e := range f.events("agent.stopping", path) {
			var data struct{ Reason string }
			if err := json.Unmarshal(e.Data, &data); err != nil || e.Message != path+" stopping: "+data.Reason {
				t.Errorf("%s: %v", e.Message, err)
			}
			all = append(all, data.Reason)
		}
		return all
	}
	const suspended = "suspended until it is resumed"
	if got := reasons("t/a"); !slices.Equal(got, []string{"stopped by hand", "its configuration has changed"}) {
		t.Errorf("a was stopped because: %q", got)
	}
	if got := reasons("t/b"); !slices.Equal(got, []string{suspended, suspended, "asked for by hand", "removed from the configuration"}) {
		t.Errorf("b was stopped because: %q", got)
	}
}

// A supervisor that its limit has paused asks what to do, and the answer is carried out.
func TestPausedSupervisorIsAnswered(t *testing.T) {
	t.Parallel()
	f := newFleet(t, supervisorTOML("s", []string{"a"}, `on_limit = "pause"`, "max_restarts = 1"),
		agentTOML("a", "test -f mended && exec sleep 1000; exit 7"), agentTOML("b", "exec sleep 1000"))
	f.up()
	q := f.awaitQuestion(1)
	if q.From != "t/s" || !strings.HasPrefix(q.Text, "t/s is paused: a ended with exit code 7 (limit: 1 failures in ") {
		t.Errorf("it asks %+v", q)
	}
	if out := f.do("inbox"); !strings.Contains(out, "resume | stop") || strings.Count(out, "\n") != 2 {
		t.Errorf("the inbox:\n%s", out)
	}
	f.awaitStates("s paused", "b running")
	f.crash()
	f.up()
	f.awaitStates("s paused", "b running")
	f.touch("mended")
	if out := f.do("answer", q.ID, "1"); out != q.ID+" of t/s is answered: resume\n" {
		t.Errorf("answered: %s", out)
	}
	f.awaitStates("s running", "s/a running")
	if n := len(f.events(event.QuestionAsked, "t/s")); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}
