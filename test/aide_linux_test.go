package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/exectest"
)

// aidefileFleet is a project with one agent with an Aidefile, called a. Its command is a shell
// script that runs in its directory.
type aidefileFleet struct {
	*fleet
	home string // its directory
}

// recordRun begins scripts: it appends a line for each run.
const recordRun = "echo \"$COPPICE_INCARNATION $COPPICE_TRIGGER\" >>runs\n"

func newAidefileFleet(t *testing.T, aidefile, script string, settings ...string) *aidefileFleet {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "agents", "a")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "Aidefile"), aidefile)
	toml := fmt.Sprintf("[aide]\ncommand = [\"/bin/sh\", \"-c\", '''\n%s%s''']\n%s\n\n[[agent]]\naidefile = \"agents/a\"\n", recordRun, script, strings.Join(settings, "\n"))
	return &aidefileFleet{fleetIn(t, dir, toml), home}
}

// runs returns the lines that the runs have written.
func (a *aidefileFleet) runs() []string {
	data, _ := os.ReadFile(filepath.Join(a.home, "runs"))
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

func (a *aidefileFleet) wantRuns(n int) {
	a.t.Helper()
	if got := a.runs(); len(got) != n {
		a.t.Fatalf("%d runs, want %d: %q", len(got), n, got)
	}
}

// awaitEvents waits for n events of a type.
func (a *aidefileFleet) awaitEvents(typ event.Type, n int) {
	a.t.Helper()
	count := 0
	if err := a.ask(func(ctx context.Context, c *api.Client) error {
		for _, err := range feed.Events(ctx, c, event.Query{Filter: event.Filter{Types: []string{string(typ)}}, Follow: true}) {
			if err != nil {
				return err
			}
			if count++; count >= n {
				return nil
			}
		}
		return ctx.Err()
	}); err != nil {
		a.t.Fatalf("%d of %d events %s: %v", count, n, typ, err)
	}
}

func (a *aidefileFleet) touch(name string) { write(a.t, filepath.Join(a.home, name), "") }

const (
	noRetry  = "[budget]\nmax_retries = 0\n"
	soon     = `backoff_base = "10ms"`
	onceMore = noRetry + "[daemon]\nmax_restarts = 2\nbackoff = \"fixed\"\n"
)

// A chain of failures ends, and each trigger after that is one run. A reset or a success starts
// over.
func TestAidefileGivesUp(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, onceMore, "test -e ok", soon)
	a.up()
	if n := a.node("t/a"); n.Aide == nil || n.Aide.State != "idle" || n.Incarnation != 0 {
		t.Fatalf("it does not wait: %+v, %+v", n, n.Aide)
	}
	a.do("fire", "a", "do this")
	a.awaitEvents(event.AgentGaveUp, 1)
	a.wantRuns(3)
	n := a.awaitState("t/a", "given_up")
	if n.InWindow != 2 || n.LimitMax != 2 || n.Aide.Restarts != 2 || n.Aide.MaxRestarts != 2 || n.Aide.Task != "do this" || !strings.Contains(n.LastExit, "failure: exit code 1") {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	for _, part := range []string{"given up", "2/2", "given up after 2 restarts in a row"} {
		if out := a.do("ps"); !strings.Contains(out, part) {
			t.Errorf("ps does not say %q:\n%s", part, out)
		}
	}
	if out := a.do("explain", "a"); !strings.Contains(out, "coppice reset t/a") || !strings.Contains(out, "started by hand") {
		t.Errorf("explain:\n%s", out)
	}
	a.do("fire", "a")
	a.awaitEvents(event.AgentGaveUp, 2)
	a.wantRuns(4)
	a.do("reset", "a")
	a.awaitEvents(event.AgentGaveUp, 3)
	a.wantRuns(7)
	a.touch("ok")
	a.do("start", "a")
	n = a.awaitState("t/a", "stopped")
	if n.Aide.State != "done" || n.InWindow != 0 {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	a.wantRuns(8)
}

// Every kind of failure is followed by a restart, until the agent gives up.
func TestAidefileFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, aidefile, script, expected string }{
		{"its command", noRetry, "exit 3", "failure: exit code 3"},
		{"its command is killed", noRetry, "kill -9 $$", "SIGKILL"},
		{"its time", noRetry + "timeout = \"300ms\"\n", "sleep 600", "timeout: it has not ended within 300ms"},
		{"its tokens", "[budget]\ntokens = 10\n", `echo '{"usage":{"output_tokens":20}}'; exit 1`, "budget: budget exhausted: 20 of 10 tokens are used up"},
		{"no tokens", "[budget]\ntokens = \"0k\"\n", "true", "budget: budget exhausted: 0 of 0 tokens"},
		{"its tries", "[budget]\nmax_retries = 1\n", "exit 1", "budget: budget exhausted: all 2 tries have failed"},
		{"a secret", "[vault]\nkeys = [\"NO_SUCH_SECRET\"]\n", "true", "faulty: the secret NO_SUCH_SECRET is missing"},
		{"a hook", "[hooks]\non_spawn = [\"bad.sh\"]\n", "true", "faulty: on_spawn bad.sh: exit code 9"},
		{"a hook after it", "[hooks]\non_complete = [\"bad.sh\"]\n", "true", "failure: on_complete bad.sh: exit code 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAidefileFleet(t, c.aidefile+"[daemon]\nmax_restarts = 1\n", c.script, soon)
			write(t, filepath.Join(a.home, "bad.sh"), "exit 9\n")
			a.up()
			a.do("fire", "a")
			a.awaitEvents(event.AgentGaveUp, 1)
			n := a.awaitState("t/a", "given_up")
			if n.Incarnation != 2 || n.InWindow != 1 || !strings.Contains(n.LastExit, c.expected) {
				t.Errorf("%d runs, %d restarts; %s\nexpected %s", n.Incarnation, n.InWindow, n.LastExit, c.expected)
			}
		})
	}
}

// A changed Aidefile applies from the next run of the chain. A missing or invalid one fails only
// the run.
func TestAidefileChangesInAChain(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, noRetry+"[daemon]\nmax_restarts = 6\nbackoff = \"fixed\"\n", `echo "$COPPICE_STYLE" >>styles; read x <gate; exit 1`, soon)
	release := fifo(t, a.home, "gate")
	path := filepath.Join(a.home, "Aidefile")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	styles := func() string { text, _ := os.ReadFile(filepath.Join(a.home, "styles")); return string(text) }
	a.up()
	a.do("fire", "a")
	eventually(t, "the first run", func() bool { return styles() == "\n" })
	write(t, path, string(before)+"[persona]\nstyle = \"brief\"\n") // the daemon is not told
	release()
	eventually(t, "the second run", func() bool { return styles() == "\nbrief\n" })
	if err := os.Remove(path); err != nil { // during a run
		t.Fatal(err)
	}
	release()
	eventually(t, "a run without an Aidefile", func() bool { return strings.Contains(a.node("t/a").LastExit, "faulty: ") })
	write(t, path, string(before))
	a.do("stop", "a")
	if n := a.node("t/a"); n.State != "stopped" {
		t.Errorf("%+v", n)
	}
	so := styles()
	a.do("start", "a")
	eventually(t, "a run with it", func() bool { return styles() == so+"\n" })
}

// A chain that has used up its tokens is given up at once, and starts over with a reset or trigger.
func TestAidefileChainOfRuns(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	a := newAidefileFleet(t, "[budget]\nmax_retries = 0\nchain_tokens = 100\n[daemon]\nmax_restarts = 9\nbackoff = \"fixed\"\n", `echo '{"usage":{"output_tokens":60}}'; exit 1`, soon)
	a.up()
	a.do("fire", "a")
	a.awaitEvents(event.AgentGaveUp, 1)
	a.wantRuns(2)
	n := a.awaitState("t/a", "given_up")
	if !n.Aide.Spent || !strings.Contains(n.LastExit, "its chain of runs has used 120 tokens, of 100") {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	for _, command := range []string{"ps", "explain"} {
		if out := a.do(command, "a"); !strings.Contains(out, "as its chain of runs has used up its tokens") {
			t.Errorf("%s does not say why:\n%s", command, out)
		}
	}
	a.do("fire", "a")
	a.awaitEvents(event.AgentGaveUp, 2)
	a.wantRuns(3)
	a.do("reset", "a")
	a.awaitEvents(event.AgentGaveUp, 3)
	a.wantRuns(5)
}

// Without [daemon], a trigger is one run, whatever its result.
func TestAidefileSingleShot(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, noRetry, `cat >stdin; exit 3`, soon)
	a.up()
	a.do("fire", "a", "the first task")
	a.awaitEvents(event.AgentCrashed, 1)
	n := a.awaitState("t/a", "stopped")
	if n.Aide.State != "done" {
		t.Errorf("%+v", n.Aide)
	}
	if told := a.events(event.AgentCrashed, "t/a"); !strings.Contains(told[0].Message, "failure: exit code 3") {
		t.Errorf("%q", told[0].Message)
	}
	if text, err := os.ReadFile(filepath.Join(a.home, "stdin")); err != nil || !strings.Contains(string(text), "# Task\n\nthe first task\n") {
		t.Errorf("it was told %q, %v", text, err)
	}

	// An agent stopped by hand stays stopped under the next daemon.
	a.do("stop", "a")
	a.wantFailure(1, []string{"fire", "a"}, "it was stopped by hand")
	a.do("down")
	a.up()
	if n := a.node("t/a"); n.State != "stopped" {
		t.Errorf("%+v", n)
	}
	a.wantFailure(1, []string{"fire", "a"}, "it was stopped by hand")
	if skipped := a.events(event.AgentFireSkipped, "t/a"); len(skipped) != 2 {
		t.Errorf("skipped: %v", skipped)
	}
	a.do("resume", "a")
	a.wantRuns(1)
	a.do("fire", "a")
	a.awaitEvents(event.AgentCrashed, 2)
	a.do("start", "a")
	a.awaitEvents(event.AgentCrashed, 3)
	a.wantRuns(3)
	a.wantFailure(3, []string{"fire", "missing"}, "missing")
}

// A schedule fires on its own, and not during a run.
func TestAidefileCron(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, "[trigger]\non = \"cron:* * * * * *\"\n", "if [ -e slow ]; then : >waiting; read x <gate; fi")
	release := fifo(t, a.home, "gate")
	a.up()
	a.awaitEvents(event.AgentExited, 2)
	for _, run := range a.runs() {
		if !strings.HasSuffix(run, " cron:* * * * * *") {
			t.Errorf("a run by %q", run)
		}
	}
	n := a.node("t/a")
	if n.Aide.NextFire == nil || len(n.Aide.Triggers) != 1 || n.Aide.FiredBy != "cron:* * * * * *" {
		t.Errorf("%+v", n.Aide)
	}
	a.touch("slow")
	eventually(t, "a run that waits", func() bool { _, err := os.Stat(filepath.Join(a.home, "waiting")); return err == nil })
	before := len(a.runs())
	a.awaitEvents(event.AgentFireSkipped, len(a.events(event.AgentFireSkipped, "t/a"))+2)
	if n := a.node("t/a"); n.State != "running" || len(a.runs()) != before {
		t.Errorf("%d runs more, %+v", len(a.runs())-before, n)
	}
	skipped := a.events(event.AgentFireSkipped, "t/a")
	if text := skipped[len(skipped)-1].Message; !strings.Contains(text, "not fired by cron:* * * * * *: the run before it is still in progress") {
		t.Errorf("%q", text)
	}
	if err := os.Remove(filepath.Join(a.home, "slow")); err != nil {
		t.Fatal(err)
	}
	release()
	eventually(t, "the next run", func() bool { return len(a.runs()) > before })
}

// A run outlives its daemon. The next daemon handles its end, even if it happened while no daemon
// ran.
func TestAidefileDaemonKilledInARun(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, onceMore, "read x <gate; test -e ok", soon)
	release := fifo(t, a.home, "gate")
	a.up()
	a.do("fire", "a", "the task")
	eventually(t, "the run", func() bool { return len(a.runs()) == 1 })
	before := a.node("t/a")
	a.crash()
	a.up()
	after := a.node("t/a")
	if after.State != "running" || after.PID != before.PID || after.Incarnation != 1 || after.Aide.Task != "the task" {
		t.Fatalf("not taken over: %+v, %+v", after, after.Aide)
	}
	a.crash()
	release()
	run := process{}
	for _, p := range processesIn(t, a.dir) {
		if p.pid == before.PID {
			run = p
		}
	}
	if run.pid != 0 {
		run.awaitEnd(t)
	}
	a.wantRuns(1)
	a.touch("ok")
	a.up()
	eventually(t, "the run after the unobserved failure", func() bool { return len(a.runs()) == 2 })
	if n := a.node("t/a"); n.InWindow != 1 || n.Aide.Task != "the task" {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	release()
	a.awaitState("t/a", "stopped")
	a.wantRuns(2)
}

// A wait of five minutes continues after a crash of the daemon, with a new count, and ends at once
// when everything stops.
func TestAidefileDaemonKilledInASleep(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, onceMore, "exit 1", `backoff_base = "5m"`)
	a.up()
	a.do("fire", "a")
	n := a.awaitState("t/a", "restarting")
	if n.NextAt == nil || n.InWindow != 1 || n.Aide.State != "backing off" {
		t.Fatalf("%+v, %+v", n, n.Aide)
	}
	a.wantFailure(1, []string{"fire", "a"}, "a restart is pending")
	next := *n.NextAt
	a.crash()
	a.up()
	n = a.node("t/a")
	if n.State != "restarting" || n.NextAt == nil || n.NextAt.Sub(next).Abs() > time.Minute || n.InWindow != 0 {
		t.Fatalf("after a crash: %+v, was to run at %v", n, next)
	}
	a.wantRuns(1)
	a.do("start", "a") // now
	eventually(t, "the run", func() bool { return len(a.runs()) == 2 })
	a.awaitState("t/a", "restarting")
	begun := time.Now()
	a.do("down")
	if d := time.Since(begun); d > waitTimeout {
		t.Errorf("down took %v", d)
	}
	a.up()
	if n := a.node("t/a"); n.Aide.State != "done" && n.Aide.State != "idle" || n.NextAt != nil {
		t.Errorf("after down and up: %+v, %+v", n, n.Aide)
	}
	a.wantRuns(2)
}

// A directory with an Aidefile is a project that runs claude.
func TestAidefileAlone(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	projectIn(t, dir)
	if err := os.Remove(filepath.Join(dir, "coppice.toml")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "Aidefile"), "[persona]\nname = \"uptime\"\n")
	write(t, filepath.Join(dir, "claude"), "#!/bin/sh\necho \"$@\" >arguments; cat >stdin\necho '{\"result\":\"<aide-summary>all is up</aide-summary>\",\"usage\":{\"input_tokens\":40,\"output_tokens\":2}}'\n")
	f := fleetOf(t, dir)
	f.env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	f.do("validate")
	f.do("up", "-d")
	f.do("fire", "uptime")
	root := filepath.Base(dir)
	f.awaitState(root+"/uptime", "stopped")
	eventually(t, "the run", func() bool { return len(f.events(event.AgentExited, root+"/uptime")) == 1 })
	if text, _ := os.ReadFile(filepath.Join(dir, "arguments")); string(text) != "-p --output-format stream-json --verbose\n" {
		t.Errorf("arguments %q", text)
	}
	if out := f.do("logs", "uptime"); !strings.Contains(out, "TOKENS: 42/200000") || !strings.Contains(out, "all is up") {
		t.Errorf("logs:\n%s", out)
	}
	if out := f.do("ps"); !strings.Contains(out, "done") {
		t.Errorf("ps:\n%s", out)
	}
}

// An agent without triggers runs once per start of the tree.
func TestRunOfAnAidefile(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, noRetry, "echo here I am; exit 0")
	r := launch(t, a.dir, "run")
	r.wantExit(0)
	a.wantRuns(1)
	if !strings.Contains(r.out.String(), "t/a | here I am") {
		t.Errorf("%s", r.out)
	}
}

// Secrets are visible only to the run.
func TestAidefileSecrets(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, noRetry+"[vault]\nkeys = [\"FROM_ENV\", \"FROM_FILE\"]\n", `echo "$FROM_ENV and $FROM_FILE"; test "$FROM_ENV" = a-value-of-the-environment`, `vault = "secrets"`)
	a.env = []string{"FROM_ENV=a-value-of-the-environment"}
	if err := os.Mkdir(filepath.Join(a.dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.dir, "secrets", "FROM_FILE"), []byte("a-value-of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.up()
	a.do("fire", "a")
	a.awaitEvents(event.AgentExited, 1)
	all := a.do("logs", "a") + a.do("events", "--json") + a.do("explain", "a", "--json")
	if !strings.Contains(all, "[FROM_ENV] and [FROM_FILE]") || strings.Contains(all, "a-value-of") {
		t.Errorf("%s", all)
	}
}

// New triggers and policies of an Aidefile apply once it is written.
func TestAidefileChanges(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, "", "true")
	a.up()
	if n := a.node("t/a"); strings.Join(n.Aide.Triggers, " ") != "manual" || n.Aide.Restart != "never" {
		t.Fatalf("%+v", n.Aide)
	}
	write(t, filepath.Join(a.home, "Aidefile"), "[trigger]\non = \"cron:* * * * * *\"\n[daemon]\nrestart = \"on-failure\"\nmax_restarts = 7\n")
	a.do("reload")
	if n := a.node("t/a"); strings.Join(n.Aide.Triggers, " ") != "cron:* * * * * *" || n.Aide.Restart != "on-failure" || n.Aide.MaxRestarts != 7 {
		t.Errorf("%+v", n.Aide)
	}
	a.awaitEvents(event.AgentExited, 1)
	write(t, filepath.Join(a.home, "Aidefile"), "[daemon]\nrestart = \"sometimes\"\n")
	a.wantFailure(1, []string{"reload"}, `agents/a/Aidefile:2:11: restart is "sometimes"`)
	write(t, filepath.Join(a.home, "Aidefile"), "")
	a.do("reload")
	if n := a.node("t/a"); strings.Join(n.Aide.Triggers, " ") != "manual" || n.Aide.NextFire != nil {
		t.Errorf("%+v", n.Aide)
	}
}

// Nothing is left of a removed agent, because its input may be private.
func TestAidefileRemoved(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"never": "", "on-failure": "[daemon]\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAidefileFleet(t, noRetry+policy, "true")
			a.up()
			a.do("fire", "a", "the task")
			a.awaitEvents(event.AgentExited, 1)
			left := func() int {
				orders, _ := os.ReadDir(filepath.Join(a.dir, ".coppice", "aide"))
				slots, _ := filepath.Glob(filepath.Join(a.dir, ".coppice", "run", "*-a"))
				return len(orders) + len(slots)
			}
			if left() != 2 {
				t.Fatalf("%d directories", left())
			}
			write(t, filepath.Join(a.dir, "coppice.toml"), "[[agent]]\nname = \"other\"\ncommand = \"sleep 1011\"\n[project]\nname = \"t\"\n")
			a.do("reload")
			eventually(t, "its directory to be removed", func() bool { return left() == 0 })
		})
	}
}

// Stopping a run stops all its processes.
func TestAidefileStop(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, "[daemon]\nrestart = \"always\"\n", "exec ./work.sh", soon)
	write(t, filepath.Join(a.home, "work.sh"), "#!/bin/sh\nsleep 1011 &\nsleep 1012\n")
	a.up()
	a.do("fire", "a")
	eventually(t, "the run", func() bool { return a.countProcesses("sleep 1011")+a.countProcesses("sleep 1012") == 2 })
	a.do("stop", "a")
	if n := a.node("t/a"); n.State != "stopped" {
		t.Errorf("%+v", n)
	}
	if left := a.countProcesses("sleep 1011") + a.countProcesses("sleep 1012"); left != 0 {
		t.Errorf("%d processes are left", left)
	}
	a.do("start", "a")
	eventually(t, "the run", func() bool { return a.countProcesses("sleep 1012") == 1 })
	exectest.Signal(t, a.node("t/a").PID, syscall.SIGKILL) // the runner itself
	eventually(t, "the run after it", func() bool { return len(a.runs()) == 3 && a.countProcesses("sleep 1012") == 1 })
	a.do("stop", "a")
}
