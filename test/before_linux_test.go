package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/quota"
)

// An account that is used up before anything runs: agents, and the runs of Aidefiles, wait for the reset. No run is
// made, and none has failed. After the reset one tries, and then the others run.
func TestUsedUpBeforeRun(t *testing.T) {
	t.Parallel()
	const agent = "[[agent]]\nname = %q\ncommand = [\"claude\", \"-p\", \"--output-format\", \"stream-json\", " +
		"\"--verbose\", \"x\"]\nrestart = \"on-failure\"\n"
	r := newFakeRun(t, fmt.Sprintf(agent, "a"), fmt.Sprintf(agent, "b"),
		"[[agent]]\nname = \"aide\"\naidefile = \"aide\"\n")
	if err := os.Mkdir(filepath.Join(r.dir, "aide"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.dir, "aide", "Aidefile"), "[persona]\nname = \"aide\"\n")
	home := listing(t, r.home)
	c := r.run("--fake", "used-up+10s,pace=100ms")
	c.out.awaitText(t, "t * started\n")
	for _, name := range []string{"a", "b", "aide"} {
		n := r.awaitState("t/"+name, "waiting")
		const reason = "usage limit: the limit of 5 hours is used up, as claude has said before a run; waits until "
		if n.Failed || n.Restarts != 0 || n.NextAt == nil || !strings.HasPrefix(n.Reason, reason) ||
			!strings.HasSuffix(n.Reason, " (reset reported by claude for its account)") {
			t.Errorf("%+v", n)
		}
	}
	out := r.do("quota", "ls")
	for _, part := range []string{
		"claude parked: usage limit: the limit of 5 hours is used up", ", told before a run of t/",
		"100 % of 5 hours (resets ", "12 % of 7 days (resets ", "3 agents: t/a, t/aide, t/b",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	all := r.eventsOf("--type", string(event.AgentStarted))
	if parked := r.eventsOf("--type", string(event.QuotaParked)); len(all) != 0 || len(parked) != 1 ||
		!strings.Contains(string(parked[0].Data), `"reset_from":"account"`) {
		t.Errorf("started: %v, parked: %v", all, parked)
	}
	c.wantExit(0)
	r.untouched(home)
	if errs := c.err.String(); !strings.Contains(errs, "fakes: 3 calls: 3 ok;") {
		t.Error(errs)
	}
}

// Claude is asked about an account once, in the environment and directory of an agent, and with the variables of the
// account. If it is used up, its agents start with the next one. The next daemon asks again.
func TestAskedWithAccount(t *testing.T) {
	t.Parallel()
	c := newAccountFleet(t, 3, mainAndSpare)
	exectest.Write(t, filepath.Join(c.dir, "claude"), fmt.Sprintf(`#!/bin/sh
case "$*" in *--input-format*)
	pwd >>%[1]s/asked.$(basename $CLAUDE_CONFIG_DIR)
	exec cat $CLAUDE_CONFIG_DIR/limits
esac
echo $COPPICE_ACCOUNT >>%[1]s/runs
exec sleep 1000
`, c.dir))
	limits := func(account string, used int) {
		write(t, filepath.Join(c.dir, account, "limits"), fmt.Sprintf(`{"type":"control_response","response":`+
			`{"subtype":"success","request_id":"coppice-usage","response":{"rate_limits_available":true,"rate_limits":`+
			`{"five_hour":{"utilization":%d,"resets_at":%q}}}}}`+"\n",
			used, time.Now().Add(time.Hour).Format(time.RFC3339)))
	}
	limits("main", 100)
	limits("spare", 99)
	c.up()
	for i := range 3 {
		c.awaitState(fmt.Sprintf("t/c%d", i), "running")
	}
	asked := func(account string, times int) {
		t.Helper()
		text, _ := os.ReadFile(filepath.Join(c.dir, "asked."+account))
		if string(text) != strings.Repeat(c.dir+"\n", times) {
			t.Errorf("%s was asked about in %q, expected %d times in %s", account, text, times, c.dir)
		}
	}
	asked("main", 1)
	asked("spare", 1)
	all := c.quotas()
	if len(all) != 2 || all[0].State != quota.Parked || all[0].ResetFrom != "reported by claude for its account" ||
		all[1].State != quota.Open || len(all[1].Used) != 1 || all[1].Used[0].Used != 0.99 || len(all[1].Agents) != 3 {
		t.Errorf("%+v", all)
	}
	eventually(t, "three runs", func() bool {
		text, _ := os.ReadFile(filepath.Join(c.dir, "runs"))
		return string(text) == "spare\nspare\nspare\n"
	})
	c.do("restart", "c0") // nothing is asked: it is known
	c.awaitState("t/c0", "running")
	asked("spare", 1)
	c.do("down")
	c.up()
	c.awaitState("t/c0", "running")
	asked("main", 1) // it is parked
	asked("spare", 2)
}

// A question ends with the daemon that asks.
func TestKilledWhileAsking(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 1)
	exectest.Write(t, filepath.Join(c.dir, "claude"), fmt.Sprintf(`#!/bin/sh
case "$*" in *--input-format*) echo >%[1]s/asking; exec sleep 1000;; esac
exec sleep 1000
`, c.dir))
	if err := syscall.Mkfifo(filepath.Join(c.dir, "asking"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := launch(t, c.dir, "up")
	if _, err := os.ReadFile(filepath.Join(c.dir, "asking")); err != nil {
		t.Fatal(err)
	}
	if n := c.node("t/c0"); n.State != "starting" {
		t.Errorf("%+v", n)
	}
	if x := c.do("explain", "c0"); !strings.Contains(x, "claude is asked what is left of account claude") {
		t.Error(x)
	}
	up.signal(syscall.SIGKILL)
	up.exit()
	c.noProcesses()
}
