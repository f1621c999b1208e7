package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/quota"
)

// accountFleet is a project with agents that run a program called claude, and with accounts. The program writes its
// agent, account and directory to the file "calls", and goes on until there is a file "says" in the directory of the
// account, which it prints before it fails.
type accountFleet struct{ claudeFleet }

// mainAndSpare are two accounts, the second of which comes after the first.
const mainAndSpare = `
[[quota]]
name = "main"
cli = "claude"
agents = ["c*", "aide"]
env = { CLAUDE_CONFIG_DIR = "%[1]s/main" }
next = "spare"

[[quota]]
name = "spare"
cli = "claude"
env_file = "spare.env"
`

func newAccountFleet(t *testing.T, agents int, quotas string) accountFleet {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"main", "spare", "own", "aide"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	exectest.Write(t, filepath.Join(dir, "claude"), fmt.Sprintf("#!/bin/sh\n"+unasked+`
echo "$COPPICE_AGENT $COPPICE_ACCOUNT $CLAUDE_CONFIG_DIR $KEY" >>%s/calls
until test -e $CLAUDE_CONFIG_DIR/says; do sleep 0.02; done
cat $CLAUDE_CONFIG_DIR/says
exit 1
`, dir))
	write(t, filepath.Join(dir, "spare.env"), fmt.Sprintf("CLAUDE_CONFIG_DIR=%s/spare\nKEY=sk-secret\n", dir))
	write(t, filepath.Join(dir, "aide", "Aidefile"), "")
	c := accountFleet{claudeFleet{&fleet{t: t, dir: dir}}}
	c.claudeFleet = claudeFleet{fleetIn(t, dir, c.toml(agents, quotas))}
	return c
}

// toml returns the file of the project.
func (c accountFleet) toml(agents int, quotas string) string {
	text := fmt.Sprintf("[aide]\ncommand = [\"%[1]s/claude\", \"-p\"]\n"+
		"[[agent]]\naidefile = \"aide\"\nname = \"aide\"\n", c.dir)
	for i := range agents {
		text += fmt.Sprintf("[[agent]]\nname = \"c%d\"\ncommand = [\"%[2]s/claude\", \"-p\"]\nrestart = \"on-failure\"\n"+
			"env = { CLAUDE_CONFIG_DIR = \"%[2]s/own\", KEY = \"own\" }\n", i, c.dir)
	}
	if strings.Contains(quotas, "%") {
		quotas = fmt.Sprintf(quotas, c.dir)
	}
	return text + quotas
}

// write replaces the file of the project.
func (c accountFleet) write(toml string) {
	write(c.t, filepath.Join(c.dir, "coppice.toml"), "[project]\nname = \"t\"\n"+toml)
}

// limit has an account report a limit.
func (c accountFleet) limit(account string, reset time.Time) {
	file := filepath.Join(c.dir, account, "says")
	write(c.t, file+".new", claudeFails("usage_limit_reached", "You've hit your limit", reset)+"\n")
	if err := os.Rename(file+".new", file); err != nil { // an empty one would be a crash
		c.t.Fatal(err)
	}
}

// serve has an account serve again.
func (c accountFleet) serve(account string) { os.Remove(filepath.Join(c.dir, account, "says")) }

// awaitCall waits for the last call of an agent to be with an account.
func (c accountFleet) awaitCall(agent, expected string) {
	c.t.Helper()
	eventually(c.t, agent+" uses "+expected, func() bool {
		data, _ := os.ReadFile(filepath.Join(c.dir, "calls"))
		last := ""
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, agent+" ") {
				last = strings.TrimPrefix(strings.TrimSpace(line), agent+" ")
			}
		}
		return last == expected
	})
}

// started returns how often the program was started.
func (c accountFleet) started() int {
	data, _ := os.ReadFile(filepath.Join(c.dir, "calls"))
	return strings.Count(string(data), "\n")
}

// quota returns a quota of the project.
func (c accountFleet) quota(name string) quota.Info {
	c.t.Helper()
	all := c.quotas()
	i := slices.IndexFunc(all, func(q quota.Info) bool { return q.Name == name })
	if i < 0 {
		c.t.Fatalf("there is no %s: %+v", name, all)
	}
	return all[i]
}

// switches returns the changes of accounts of an agent.
func (c accountFleet) switches(path string) (all []event.Switch) {
	for _, e := range c.eventsOf("--type", string(event.QuotaSwitched)) {
		var s event.Switch
		if err := json.Unmarshal(e.Data, &s); err != nil {
			c.t.Fatal(err)
		}
		if e.Path == path {
			all = append(all, s)
		}
	}
	return all
}

// When its account is used up, the fleet goes on with the next one, and stays there, also under the next daemon. When
// both are used up, it waits for the one that opens first.
func TestAccounts(t *testing.T) {
	t.Parallel()
	const agents = 3
	c := newAccountFleet(t, agents, mainAndSpare)
	c.up()
	c.do("fire", "aide", "do this")
	all := []string{"t/c0", "t/c1", "t/c2", "t/aide"}
	with := func(expected string) {
		t.Helper()
		for _, path := range all {
			c.awaitCall(path, expected)
			c.awaitState(path, "running")
		}
	}
	onMain := "main " + c.dir + "/main"
	c.awaitCall("t/aide", onMain)
	for i := range agents {
		c.awaitCall(fmt.Sprintf("t/c%d", i), onMain+" own")
	}
	if q := c.quota("main"); q.State != quota.Open || q.Next != "spare" || q.CLI != "claude" || len(q.Agents) != len(all) {
		t.Errorf("%+v", q)
	}
	if out := c.do("quota", "ls"); out != "main open\n  agents  4 agents: t/aide, t/c0, t/c1, t/c2\n  then    spare\nspare open\n" {
		t.Errorf("%s", out)
	}
	if out := c.do("explain", "c0"); !strings.Contains(out, "it uses the account main; when that is used up, spare") {
		t.Errorf("%s", out)
	}

	began := time.Now()
	c.limit("main", began.Add(time.Hour))
	onSpare := "spare " + c.dir + "/spare sk-secret"
	with(onSpare)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	for _, path := range all {
		if n := c.node(path); n.Restarts != 0 || n.InWindow > 2 {
			t.Errorf("%+v", n)
		}
		if s := c.switches(path); len(s) != 1 || s[0].From != "main" || s[0].To != "spare" || !strings.HasPrefix(s[0].Reason, "usage limit: You've hit your limit; it resets at ") {
			t.Errorf("%s: %+v", path, s)
		}
	}
	if q := c.quota("main"); q.State != quota.Parked || len(q.Waiting) != 0 || len(q.Agents) != 0 {
		t.Errorf("%+v", q)
	}
	if q := c.quota("spare"); q.State != quota.Open || len(q.Agents) != len(all) {
		t.Errorf("%+v", q)
	}
	if out := c.do("explain", "c0"); !strings.Contains(out, "it uses the account spare instead of main") {
		t.Errorf("%s", out)
	}
	if out := c.do("status"); strings.Contains(out, "quota") {
		t.Errorf("a limit that no agent waits for needs attention: %s", out)
	}

	// It stays there, also under the next daemon, and when the other one serves again.
	c.crash()
	c.up()
	c.serve("main")
	c.do("quota", "resume", "main")
	c.do("restart", "c0")
	eventually(t, "a restart", func() bool { return c.node("t/c0").State == "running" && c.started() == 2*len(all)+1 })
	with(onSpare)

	// Both are used up.
	c.limit("main", began.Add(time.Hour))
	c.limit("spare", began.Add(2*time.Hour))
	eventually(t, "that all wait for both", func() bool {
		return len(c.quota("main").Waiting) == len(all) && len(c.quota("spare").Waiting) == len(all)
	})
	for _, path := range all {
		n := c.awaitState(path, "waiting")
		if n.Restarts != 0 || n.NextAt == nil || n.NextAt.Before(began.Add(time.Hour-time.Second)) || n.NextAt.After(began.Add(time.Hour+2*time.Minute)) {
			t.Errorf("%+v", n)
		}
	}
	c.serve("spare")
	c.do("quota", "resume", "spare")
	eventually(t, "one on the spare account", func() bool { return c.quota("spare").State == quota.Probing })
	for _, out := range []string{c.do("events", "-n", "1000", "--json"), c.do("quota", "ls", "--json"), c.do("logs", "-n", "1000"), c.do("explain", "c0")} {
		if strings.Contains(out, "sk-secret") {
			t.Errorf("a value of an account: %s", out)
		}
	}
}

// Agents that wait go on at once when the file gives them another account. What is known of an account goes with it.
func TestAccountsReload(t *testing.T) {
	t.Parallel()
	const agents = 2
	c := newAccountFleet(t, agents, strings.Replace(mainAndSpare, "next = \"spare\"\n", "", 1))
	c.limit("main", time.Now().Add(time.Hour))
	c.up()
	for i := range agents {
		c.awaitState(fmt.Sprintf("t/c%d", i), "waiting")
	}
	c.write(c.toml(agents, mainAndSpare))
	for i := range agents {
		c.awaitCall(fmt.Sprintf("t/c%d", i), "spare "+c.dir+"/spare sk-secret")
	}
	c.write(c.toml(agents, ""))
	eventually(t, "that main is gone", func() bool { return len(c.quotas()) == 0 })
	c.limit("spare", time.Now().Add(time.Hour)) // it is no longer an account
	for i := range agents {
		c.awaitCall(fmt.Sprintf("t/c%d", i), " "+c.dir+"/own own")
	}
	c.write(c.toml(agents, mainAndSpare))
	eventually(t, "that main is open", func() bool { return len(c.quotas()) == 2 && c.quota("main").State == quota.Open })
	c.do("down")
	c.serve("main")
	c.up()
	if q := c.quota("main"); q.State != quota.Open {
		t.Errorf("%+v", q)
	}
}
