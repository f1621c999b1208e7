package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/task"
)

// unasked begins scripts named claude: they tell nothing of what is left of their account.
const unasked = "case \"$*\" in *--input-format*) exit 1;; esac\n"

// claudeFleet is a project with agents that run a program called claude. It prints the file "says" in the
// project, and exits with 1 unless there is a file "serves".
type claudeFleet struct{ *fleet }

func newClaudeFleet(t *testing.T, agents int, more ...string) claudeFleet {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "claude")
	exectest.Write(t, program, fmt.Sprintf("#!/bin/sh\n"+unasked+"echo x >>%[1]s/calls\n"+
		"if test -e %[1]s/serves; then echo '%[2]s'; exit 0; fi\ncat %[1]s/says\nexit 1\n",
		dir, `{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":1,"output_tokens":1}}`))
	var toml []string
	for i := range agents {
		toml = append(toml, fmt.Sprintf("[[agent]]\nname = \"c%d\"\ncommand = [%q, \"-p\"]\nrestart = \"on-failure\"\n", i, program))
	}
	return claudeFleet{fleetIn(t, dir, append(toml, more...)...)}
}

func (c claudeFleet) says(line string) { write(c.t, filepath.Join(c.dir, "says"), line+"\n") }

// calls returns how often the program was called.
func (c claudeFleet) calls() int {
	data, _ := os.ReadFile(filepath.Join(c.dir, "calls"))
	return strings.Count(string(data), "x")
}

func (c claudeFleet) quotas() []quota.Info {
	c.t.Helper()
	var all []quota.Info
	if err := json.Unmarshal([]byte(c.do("quota", "ls", "--json")), &all); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// all returns the events of a type.
func (c claudeFleet) all(typ event.Type) []event.Event { return c.eventsOf("--type", string(typ)) }

func claudeFails(code, text string, resets time.Time) string {
	return fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"}}`+"\n"+
		`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"api_error":%q,"result":%q}`, resets.Unix(), code, text)
}

// A usage limit parks all agents of the account, and no other. None has failed, also for the next daemon. One goes
// first, and then the others.
func TestQuotaParks(t *testing.T) {
	t.Parallel()
	const agents = 6
	c := newClaudeFleet(t, agents, agentTOML("other", sleeper))
	resets := time.Now().Add(2 * time.Hour)
	c.says(claudeFails("usage_limit_reached", "You've hit your 5-hour limit", resets))
	c.up()
	waits := func() {
		t.Helper()
		for i := range agents {
			n := c.awaitState(fmt.Sprintf("t/c%d", i), "waiting")
			if n.Restarts != 0 || n.InWindow != 0 || n.Loop != "" || n.NextAt == nil || n.NextAt.Before(resets.Add(-time.Second)) || n.NextAt.After(resets.Add(2*time.Minute)) ||
				!strings.HasPrefix(n.Reason, "usage limit: You've hit your 5-hour limit; waits until ") || !strings.HasSuffix(n.Reason, " (reset reported by claude)") {
				t.Errorf("%+v", n)
			}
		}
		if n := c.node("t/other"); n.State != "running" || n.Incarnation != 1 {
			t.Errorf("the neighbour: %+v", n)
		}
		if all := c.quotas(); len(all) != 1 || all[0].Name != "claude" || all[0].State != quota.Parked || len(all[0].Waiting) != agents {
			t.Errorf("%+v", all)
		}
	}
	waits()
	if n := c.calls(); n > agents {
		t.Errorf("%d calls of %d agents", n, agents)
	}
	if n := len(c.all(event.QuotaParked)); n != 1 {
		t.Errorf("%d events that it is parked", n)
	}
	if n := len(c.all(event.AgentCrashed)) + len(c.all(event.AgentStartFailed)); n != 0 {
		t.Errorf("%d events of failures", n)
	}
	calls := c.calls()
	c.crash()
	c.up()
	waits()
	if n := c.calls(); n != calls {
		t.Errorf("%d calls after the daemon was killed, %d before", n, calls)
	}
	for args, expected := range map[string]string{
		"quota ls":      "claude parked: usage limit: You've hit your 5-hour limit\n",
		"explain c0":    "it tries again in ",
		"status":        "needs    quota claude parked: usage limit: You've hit your 5-hour limit; 6 agents wait; next start in ",
		"events -n 100": "quota claude is parked",
	} {
		if out := c.do(strings.Fields(args)...); !strings.Contains(out, expected) {
			t.Errorf("%s: %s", args, out)
		}
	}
	if out, err := c.try("quota", "resume", "codex"); err == nil || !strings.Contains(out, `no such quota is closed: "codex"`) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := c.try("start", "c0"); err == nil || !strings.Contains(out, "c0 waits: usage limit: ") || !strings.Contains(out, "coppice quota ls") {
		t.Errorf("%v: %s", err, out)
	}
	write(t, filepath.Join(c.dir, "serves"), "")
	c.do("quota", "resume", "claude")
	for i := range agents {
		if n := c.awaitState(fmt.Sprintf("t/c%d", i), "stopped"); n.Failed || n.Restarts != 0 {
			t.Errorf("%+v", n)
		}
	}
	if n := c.calls(); n != calls+agents {
		t.Errorf("%d calls at the end, expected %d", n, calls+agents)
	}
	if all := c.quotas(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	for _, typ := range []event.Type{event.QuotaProbing, event.QuotaOpened} {
		if n := len(c.all(typ)); n != 1 {
			t.Errorf("%d events %s", n, typ)
		}
	}
}

// A login that is not accepted stops all agents of the account, and asks one question.
func TestQuotaStops(t *testing.T) {
	t.Parallel()
	const agents = 3
	c := newClaudeFleet(t, agents)
	c.says(`{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"api_error":"authentication_failed","result":"Invalid API key"}`)
	c.up()
	for i := range agents {
		c.awaitState(fmt.Sprintf("t/c%d", i), "waiting")
	}
	asked := c.awaitQuestion(1)
	if asked.From != "quota/claude" || !strings.Contains(asked.Text, "Invalid API key") {
		t.Fatalf("%+v", asked)
	}
	if n := len(c.all(event.QuotaStopped)); n != 1 {
		t.Errorf("%d events that it is stopped", n)
	}
	write(t, filepath.Join(c.dir, "serves"), "")
	c.do("answer", asked.ID, "resume")
	for i := range agents {
		c.awaitState(fmt.Sprintf("t/c%d", i), "stopped")
	}
	if all := c.all(event.QuestionAsked); len(all) != 1 {
		t.Errorf("%d questions", len(all))
	}
}

// The run of an Aidefile that meets a limit is made again when the quota is open, also where its policy starts no
// run without a trigger.
func TestQuotaOfAidefile(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, "", `test -e served && exit
printf '%s' '`+claudeFails("usage_limit_reached", "You have hit your limit", time.Now().Add(time.Hour))+`'
exit 1`)
	a.up()
	a.do("fire", "a", "do this")
	n := a.awaitState("t/a", "waiting")
	if n.Aide.State != "waiting" || n.Aide.Task != "do this" || n.Restarts != 0 || !strings.HasPrefix(n.Reason, "usage limit: You have hit your limit; waits until ") {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	a.wantRuns(1)
	if out := a.do("quota", "ls"); !strings.HasPrefix(out, "t/a parked: ") { // its command is a script: it may have any account
		t.Error(out)
	}
	a.crash()
	a.up()
	if n = a.awaitState("t/a", "waiting"); n.Aide.Task != "do this" {
		t.Errorf("after the daemon was killed: %+v", n.Aide)
	}
	a.wantRuns(1)
	a.do("stop", "a")
	a.do("resume", "a")
	if out := a.do("fire", "a", "do that"); !strings.HasPrefix(out, "a fired; it waits: usage limit: You have hit your limit; waits until ") {
		t.Error(out)
	}
	a.wantRuns(1)
	a.touch("served")
	a.do("quota", "resume", "t/a")
	if n = a.awaitState("t/a", "stopped"); n.Failed || n.Aide.State != "done" || n.Aide.Task != "do that" {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	a.wantRuns(2)
}

// A task that an agent has claimed when its account is used up goes back, and the claim is no failure. The hook for
// failures does not run.
func TestQuotaReleasesClaims(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 0)
	write(t, filepath.Join(c.dir, "Aidefile"), "")
	write(t, filepath.Join(c.dir, "coppice.toml"), fmt.Sprintf(`[project]
name = "t"
[daemon]
max_claims = 1
[aide]
command = ["/bin/sh", "-c", "coppice agent task claim -q && exec %[1]s/claude"]
cli = "claude"
[[agent]]
name = "plain"
command = "coppice agent task claim -q && exec %[1]s/claude"
cli = "claude"
on_error = "touch %[1]s/failed"
[[agent]]
name = "aide"
aidefile = "Aidefile"
on_error = "touch %[1]s/failed"
`, c.dir))
	c.says(claudeFails("usage_limit_reached", "You've hit your limit", time.Now().Add(time.Hour)))
	c.up()
	c.do("suspend", "plain") // it has failed without a task
	os.Remove(filepath.Join(c.dir, "failed"))
	for _, name := range []string{"plain", "aide"} {
		id := c.add("a thing", "--assignee", "t/"+name)
		if name == "aide" {
			c.do("stop", "plain")
			c.do("quota", "resume", "claude")
			c.do("fire", "aide")
		} else {
			c.do("resume", "plain")
		}
		c.awaitState("t/"+name, "waiting")
		eventually(t, "that it is open again", func() bool { return c.task(id).Claims > 0 && c.task(id).Status != task.InProgress })
		if got := c.task(id); got.Status != task.Open || got.FailedClaims != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "failed")); err == nil {
		t.Error("the hook for failures has run")
	}
}

// A false success is a failure, and the reason is what the command line has reported.
func TestFalseSuccess(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 0)
	program := filepath.Join(c.dir, "gemini")
	exectest.Write(t, program, "#!/bin/sh\necho '{\"type\":\"error\",\"severity\":\"warning\",\"message\":\"Loop detected, stopping execution\"}'\necho '{\"type\":\"result\",\"status\":\"success\"}'\n")
	write(t, filepath.Join(c.dir, "coppice.toml"), fmt.Sprintf("[project]\nname = \"t\"\n[[agent]]\nname = \"g\"\ncommand = [%q]\nrestart = \"never\"\n", program))
	c.up()
	eventually(t, "a failure", func() bool { return len(c.all(event.AgentCrashed)) == 1 })
	if e := c.all(event.AgentCrashed)[0]; !strings.Contains(e.Message, "loop: Loop detected, stopping execution") {
		t.Errorf("%+v", e)
	}
}
