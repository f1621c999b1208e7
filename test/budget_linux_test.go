package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/task"
)

// budgets returns the budgets by name.
func (f *fleet) budgets() map[string]budget.Info {
	f.t.Helper()
	var all []budget.Info
	if err := json.Unmarshal([]byte(f.do("budget", "ls", "--json")), &all); err != nil {
		f.t.Fatal(err)
	}
	byName := map[string]budget.Info{}
	for _, b := range all {
		byName[b.Name] = b
	}
	return byName
}

// newSpendingFleet is a project whose agents run a program called claude, which uses 6,000 tokens each time. It waits
// while there is a file "wait", or "wait." and its name.
func newSpendingFleet(t *testing.T, toml ...string) claudeFleet {
	t.Helper()
	c := newClaudeFleet(t, 0, toml...)
	exectest.Write(t, filepath.Join(c.dir, "claude"), fmt.Sprintf("#!/bin/sh\n"+unasked+`echo x >>%[1]s/calls
while test -e %[1]s/wait || test -e %[1]s/wait.${COPPICE_AGENT##*/}; do sleep 0.02; done
%[2]s
`, c.dir, claudeSpends("6000")))
	return c
}

// declare writes the file of the project.
func (c claudeFleet) declare(toml ...string) {
	write(c.t, filepath.Join(c.dir, "coppice.toml"), "[project]\nname = \"t\"\n"+strings.Join(toml, ""))
}

// claudeSpends prints what claude reports of a run that has used so many tokens.
func claudeSpends(tokens string) string {
	return `echo '{"type":"result","subtype":"success","is_error":false,"result":"done","num_turns":1,"modelUsage":{"m":{"inputTokens":` +
		tokens + `,"costUSD":0.5}}}'`
}

func spender(dir, name string, keys ...string) string {
	return fmt.Sprintf("[[agent]]\nname = %q\ncommand = [\"%s/claude\", \"-p\"]\n%s%s\n", name, dir, always,
		strings.Join(keys, "\n"))
}

// An agent has to fit into its own budget and into that of its supervisor. The one that is reached first parks the agent
// alone, and the other parks both.
func TestBudgetsNest(t *testing.T) {
	t.Parallel()
	c := newSpendingFleet(t)
	c.declare(`[[budget]]
name = "own"
of = "a"
tokens = "10k"
[[budget]]
name = "team"
of = "pair"
tokens = "25k"
[[supervisor]]
name = "pair"
children = ["a", "b"]
`, spender(c.dir, "a"), spender(c.dir, "b"), agentTOML("other", sleeper))
	c.touch("wait.b")
	c.up()
	n := c.awaitState("t/pair/a", "waiting")
	if n.Failed || n.NextAt == nil ||
		!strings.HasPrefix(n.Reason,
			"budget own: 12,000 of 10,000 tokens today; waits until 00:00, or: coppice budget raise own") {
		t.Errorf("%+v", n)
	}
	if b := c.budgets(); b["own"].State != budget.Reached || b["team"].State != budget.Open ||
		b["team"].Limits[0].Used != 12000 {
		t.Errorf("%+v", b)
	}
	os.Remove(filepath.Join(c.dir, "wait.b"))
	n = c.awaitState("t/pair/b", "waiting")
	if !strings.HasPrefix(n.Reason, "budget team: 30,000 of 25,000 tokens today; waits until 00:00") || n.Failed {
		t.Errorf("%+v", n)
	}
	if c.calls() != 5 || c.node("t/other").State != "running" {
		t.Errorf("%d calls, the other is %s", c.calls(), c.node("t/other").State)
	}
	for args, expected := range map[string]string{
		"budget ls":        "  tokens  [####################] 120%  30,000 of 25,000\n",
		"status":           "budget team reached: 30,000 of 25,000 tokens today; 1 agent waits",
		"explain t/pair/b": "or earlier if its budget has room",
		"cost --json":      `"turns":5,`,
	} {
		if out := c.do(strings.Fields(args)...); !strings.Contains(out, expected) {
			t.Errorf("%s: %s", args, out)
		}
	}
	c.do("budget", "raise", "team")
	c.awaitState("t/pair/b", "waiting")
	eventually(t, "that the team uses more", func() bool { return c.budgets()["team"].Limits[0].Used == 54000 })
	if a := c.node("t/pair/a"); a.State != "waiting" || a.Incarnation > 3 {
		t.Errorf("%+v", a)
	}
}

// A budget per day that is reached parks all that it covers, and asks one question. That survives a daemon that is
// killed, which counts nothing twice. When a person raises it, all go on.
func TestBudgetOfDay(t *testing.T) {
	t.Parallel()
	const agents = 4
	c := newSpendingFleet(t)
	toml := []string{"[[budget]]\nname = \"night\"\ntokens = \"20k\"\ndollars = 100\n"}
	for i := range agents {
		toml = append(toml, spender(c.dir, fmt.Sprint("c", i), fmt.Sprintf("on_error = \"touch %s/failed\"", c.dir)))
	}
	c.declare(toml...)
	c.touch("wait")
	c.up()
	eventually(t, "four calls", func() bool { return c.calls() == agents })
	c.crash()
	os.Remove(filepath.Join(c.dir, "wait"))
	c.up()
	waits := func() {
		t.Helper()
		for i := range agents {
			if n := c.awaitState(fmt.Sprint("t/c", i), "waiting"); n.Failed || n.Loop != "" ||
				!strings.Contains(n.Reason, "budget night: ") {
				t.Errorf("%+v", n)
			}
		}
	}
	waits()
	used := c.budgets()["night"].Limits[0].Used
	if used < 20000 || used > 20000+6000*agents || used != float64(*c.costs().Total.Tokens) {
		t.Errorf("%v used", used)
	}
	asked := c.awaitQuestion(1)
	if asked.From != "budget/night" || !slices.Equal(asked.Options, []string{"raise", "leave"}) {
		t.Errorf("%+v", asked)
	}
	calls := c.calls()
	c.crash()
	c.up()
	waits()
	if got := c.budgets()["night"]; got.Limits[0].Used != used || c.calls() != calls || len(got.Waiting) != agents {
		t.Errorf("after a kill: %d calls, before %d; %+v", c.calls(), calls, got)
	}
	if all := c.all(event.QuestionAsked); len(all) != 1 {
		t.Errorf("%d questions", len(all))
	}
	if n := len(c.all(event.AgentCrashed)) + len(c.all(event.AgentStartFailed)); n != 0 {
		t.Errorf("%d failures", n)
	}
	c.do("answer", asked.ID, "raise")
	eventually(t, "more calls", func() bool { return c.calls() > calls })
	eventually(t, "that it is reached again", func() bool {
		b := c.budgets()["night"]
		return b.State == budget.Reached && b.Raised > 0 && len(b.Waiting) == agents
	})
	if _, err := os.Stat(filepath.Join(c.dir, "failed")); err == nil {
		t.Error("the hook for failures has run")
	}
	for _, typ := range []event.Type{event.BudgetReached, event.BudgetRaised, event.BudgetOpened} {
		if len(c.all(typ)) == 0 {
			t.Errorf("no event %s", typ)
		}
	}
	if out, err := c.try("budget", "raise", "nigth"); err == nil || !strings.Contains(out,
		`no such budget: "nigth"; did you mean "night"?`) {
		t.Errorf("%v: %s", err, out)
	}
	// A change of the file applies at once.
	calls = c.calls()
	text, err := os.ReadFile(filepath.Join(c.dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(c.dir, "coppice.toml"), strings.Replace(string(text), `"20k"`, `"100k"`, 1))
	eventually(t, "more calls", func() bool { return c.calls() > calls })
}

// A script that takes too long is ended at once, and waits for a person. It has not failed.
func TestBudgetOfTime(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[[budget]]\nname = \"short\"\nper = \"run\"\ntime = \"300ms\"\n",
		agentTOML("slow", "trap '' TERM; echo x >>runs; sleep 1000 & wait; sleep 1000", `restart = "on-failure"`,
			`max_restarts = 1`,
			`on_error = "touch failed"`), agentTOML("quick", "true", `restart = "never"`))
	f.up()
	n := f.awaitState("t/slow", "waiting")
	if n.Failed || n.Restarts != 0 || !strings.Contains(n.Reason,
		" of 300ms time in a run; waits until a person has acted: coppice budget raise short") {
		t.Errorf("%+v", n)
	}
	f.awaitState("t/quick", "stopped")
	f.crash()
	f.up()
	f.awaitState("t/slow", "waiting")
	if b := f.budgets()["short"]; !slices.Equal(b.Parked, []string{"t/slow"}) || b.State != budget.Reached {
		t.Errorf("%+v", b)
	}
	f.do("budget", "raise", "short")
	eventually(t, "another run", func() bool {
		data, _ := os.ReadFile(filepath.Join(f.dir, "runs"))
		return strings.Count(string(data), "x") == 2
	})
	eventually(t, "that it waits again", func() bool { return len(f.budgets()["short"].Waiting) == 1 })
	if _, err := os.Stat(filepath.Join(f.dir, "failed")); err == nil {
		t.Error("the hook for failures has run")
	}
}

// A task at which too many runs have worked is parked, and its agent goes on with another one.
func TestBudgetOfTask(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 0)
	exectest.Write(t, filepath.Join(c.dir, "claude"), `#!/bin/sh
id=$(coppice agent task claim -q --wait) || exit 1
echo $id >>claimed
test "$id" != "$(cat easy)" || coppice agent task close "$id"
`+claudeSpends("6000")+"\n")
	c.declare("[[budget]]\nname = \"attempts\"\nper = \"task\"\nruns = 3\n",
		fmt.Sprintf("[[agent]]\nname = \"w\"\ncommand = [%q]\nstdin = \"/dev/null\"\ndir = %q\n%s", filepath.Join(c.dir,
			"claude"), c.dir, always))
	c.touch("easy")
	c.up()
	hard := strings.TrimSpace(c.do("task", "add", "hard", "--pool", "w", "--priority", "0"))
	easy := strings.TrimSpace(c.do("task", "add", "easy", "--pool", "w", "--priority", "4"))
	write(t, filepath.Join(c.dir, "easy"), easy)
	c.do("restart", "w")
	eventually(t, "that it is parked", func() bool { return c.task(hard).Status == task.Parked })
	if got := c.task(hard); !strings.HasPrefix(got.Reason, "budget attempts: 3 of 3 runs at "+hard) ||
		got.FailedClaims > 2 {
		t.Errorf("%+v", got)
	}
	eventually(t, "that the other is done", func() bool { return c.task(easy).Status == task.Closed })
	if b := c.budgets()["attempts"]; !slices.Equal(b.Tasks, []string{hard}) {
		t.Errorf("%+v", b)
	}
	c.do("budget", "raise", "attempts")
	if got := c.task(hard); got.Status == task.Parked {
		t.Errorf("%+v", got)
	}
	c.do("restart", "w")
	eventually(t, "that it is parked again", func() bool { return c.task(hard).Status == task.Parked })
	if got := c.task(hard); !strings.HasPrefix(got.Reason, "budget attempts: 6 of 6 runs at ") {
		t.Errorf("%+v", got)
	}
}

// The examples in docs/budgets.md work.
func TestBudgetDoc(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "budgets.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	dir := project(t)
	write(t, filepath.Join(dir, "coppice.toml"), block(t, page, "toml"))
	exectest.Write(t, filepath.Join(dir, "claude"), `#!/bin/sh
test "${COPPICE_AGENT##*/}" = coder || { touch testing; exec sleep 1000; }
until test -e testing; do sleep 0.02; done
`+claudeSpends("6800")+"\n")
	f := fleetOf(t, dir)
	f.up()
	eventually(t, "that both wait", func() bool {
		return len(f.budgets()["night"].Waiting) == 2 && f.costs().Total.UnknownTokens == 1
	})
	times := regexp.MustCompile(`(since   ).*|(until   ).*, or`)
	_, shown, _ := strings.Cut(page, "$ coppice budget ls\n")
	shown, _, _ = strings.Cut(shown, "```")
	if out := f.do("budget", "ls"); times.ReplaceAllString(out, "$1$2") != times.ReplaceAllString(shown, "$1$2") {
		t.Errorf("it is\n%s\nthe page shows\n%s", out, shown)
	}
	commands := 0
	for line := range strings.Lines(block(t, page, "sh")) {
		commands++
		f.do(strings.Fields(line)[1:]...)
	}
	if commands != 2 || f.budgets()["night"].Raised == 0 {
		t.Errorf("%d commands, %+v", commands, f.budgets())
	}
}

// The run of an Aidefile that a budget ends has not failed, and is made again when there is room. One that is fired
// meanwhile waits.
func TestBudgetOfAidefile(t *testing.T) {
	t.Parallel()
	a := newClaudeAidefile(t, "", "if test -e long; then exec sleep 1000; fi\n"+claudeSpends("6000")+"\n")
	text, err := os.ReadFile(filepath.Join(a.dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(a.dir, "coppice.toml"), string(text)+"[[budget]]\nname = \"n\"\ntokens = \"10k\"\n"+
		"[[budget]]\nname = \"each\"\nper = \"run\"\ntime = \"2s\"\n")
	a.up()
	for _, what := range []string{"this", "that"} {
		a.do("fire", "a", what)
		a.awaitState("t/a", "stopped")
	}
	eventually(t, "that it is reached", func() bool { return a.budgets()["n"].State == budget.Reached })
	if b := a.budgets()["n"]; b.Limits[0].Used != 12000 {
		t.Errorf("%+v", b)
	}
	if out := a.do("fire", "a", "more"); !strings.HasPrefix(out, "a fired; it waits: budget n: 12,000 of 10,000 tokens today; waits until 00:00") {
		t.Error(out)
	}
	a.wantRuns(2)
	a.touch("long")
	a.do("budget", "raise", "n")
	eventually(t, "that its run is ended", func() bool { return slices.Equal(a.budgets()["each"].Parked, []string{"t/a"}) })
	if n := a.awaitState("t/a", "waiting"); n.Failed || n.Aide.State != "waiting" || n.Aide.Task != "more" || !strings.HasPrefix(n.Reason, "budget each: 2.0s of 2.0s time in a run") {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	if err := os.Remove(filepath.Join(a.home, "long")); err != nil {
		t.Fatal(err)
	}
	a.do("budget", "raise", "each")
	if n := a.awaitState("t/a", "stopped"); n.Failed || n.Aide.Task != "more" {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	a.wantRuns(4)
}
