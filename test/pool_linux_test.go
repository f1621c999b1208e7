package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/status"
)

// drainingScript is an instance that notices its drain when nudged. It finishes when the file
// ok.NUMBER exists.
const drainingScript = `trap 'coppice agent drain-check && {
	: > told.$COPPICE_INSTANCE
	while ! [ -e ok.$COPPICE_INSTANCE ]; do sleep 0.05; done
	coppice agent drain-ack
}' USR1
trap 'exit 0' TERM
echo "$COPPICE_POOL $COPPICE_INSTANCE $COPPICE_AGENT" > "env.$COPPICE_INSTANCE"
echo here
while :; do sleep 1000 & wait; done`

// fastChecks makes pools run their checks five times a second.
const fastChecks = "[daemon]\npatrol_interval = \"200ms\"\n\n"

// poolTOML returns a pool w of instances that run a script, with keys of the pool.
func poolTOML(script string, keys ...string) string {
	agent := chatterTOML("w", script, `nudge = { signal = "USR1" }`, `ready = { log = "here" }`, `shutdown = { grace = "2s" }`)
	return agent + "[agent.pool]\n" + strings.Join(keys, "\n") + "\n\n"
}

// setCheckOutput atomically changes the output of the check "cat size".
func (f *fleet) setCheckOutput(text string) {
	f.t.Helper()
	file := filepath.Join(f.dir, "size")
	write(f.t, file+".new", text+"\n")
	if err := os.Rename(file+".new", file); err != nil {
		f.t.Fatal(err)
	}
}

// instances returns the instances of the pool by name, with their numbers.
func (f *fleet) instances() string {
	f.t.Helper()
	var all []string
	for _, n := range f.nodes() {
		if name, ok := strings.CutPrefix(n.Path, "t/w/"); ok {
			all = append(all, fmt.Sprint(name, " ", n.Incarnation, " ", n.State))
		}
	}
	return strings.Join(all, ", ")
}

func (f *fleet) awaitInstances(want string) {
	f.t.Helper()
	got := ""
	defer func() {
		if f.t.Failed() {
			f.t.Logf("the instances are %s", got)
		}
	}()
	eventually(f.t, want, func() bool { got = f.instances(); return got == want })
}

func (f *fleet) awaitPool(what string, done func(pool.Info) bool) {
	f.t.Helper()
	f.awaitNode("t/w", what, func(n status.Node) bool { return n.Pool != nil && done(*n.Pool) })
}

// countRunning counts the processes of instances, under any daemon.
func (f *fleet) countRunning() (n int) {
	for _, p := range processesIn(f.t, f.dir) {
		if strings.HasPrefix(p.name, "/bin/sh -c") && strings.Contains(p.name, "told.$COPPICE_INSTANCE") {
			n++
		}
	}
	return n
}

func (f *fleet) touch(name string) { write(f.t, filepath.Join(f.dir, name), "") }

// A pool follows its check. Surplus instances drain before they stop.
func TestPool(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	f := newFleet(t, fastChecks, poolTOML(drainingScript, `min = 1`, `max = 11`, `check = "cat size"`, `drain_timeout = "10m"`))
	f.setCheckOutput("2")
	f.do("up", "-d")
	if got, want := f.instances(), "w-1 1 running, w-2 1 running"; got != want {
		t.Errorf("when it is up there is %s, want %s", got, want)
	}
	f.setCheckOutput("99")
	var all []string
	for i := range 11 {
		all = append(all, fmt.Sprintf("w-%d 1 running", i+1))
	}
	f.awaitInstances(strings.Join(all, ", ")) // w-10 comes after w-9
	if got, want := f.read("env.11"), "w 11 t/w/w-11\n"; got != want {
		t.Errorf("the last one is told %q, want %q", got, want)
	}
	pid := f.node("t/w/w-3").PID
	f.setCheckOutput("-5")
	for i := range 10 {
		f.awaitFile(fmt.Sprintf("told.%d", i+2))
	}
	if out := f.do("tree"); !strings.Contains(out, "w (pool)") || strings.Count(out, "draining") != 10 || !strings.Contains(out, "1 wanted (1..11), 11 live, 10 to finish") {
		t.Errorf("the tree is\n%s", out)
	}
	if out := f.do("status"); !strings.Contains(out, "t/w: 1 wanted (1..11), 11 live, 10 to finish") {
		t.Errorf("the status is\n%s", out)
	}
	if out := f.do("explain", "w"); !strings.Contains(out, "the check said -5 last") || !strings.Contains(out, "1 instance wanted, of 1..11 that may be") {
		t.Errorf("the explanation is\n%s", out)
	}
	f.wantFailure(1, []string{"start", "w/w-3"}, "t/w/w-3 is no longer wanted by its pool")
	f.setCheckOutput("3") // two of them continue
	f.awaitPool("wants three", func(p pool.Info) bool { return p.Size == 3 && p.Draining == 8 })
	for i := 4; i <= 11; i++ {
		f.touch(fmt.Sprintf("ok.%d", i))
	}
	f.awaitInstances("w-1 1 running, w-2 1 running, w-3 1 running")
	if n := f.node("t/w/w-3"); n.PID != pid || n.Drain != nil {
		t.Errorf("the third one is %+v, was process %d", n, pid)
	}
	for i := 4; i <= 11; i++ {
		path := fmt.Sprintf("t/w/w-%d", i)
		if all := f.events(event.AgentDrained, path); len(all) != 1 || decode(t, all[0])["finished"] != true {
			t.Errorf("%s was drained: %v", path, all)
		}
		if asked, said := f.events(event.AgentDraining, path), f.events(event.AgentFinished, path); len(asked) != 1 || len(said) != 1 {
			t.Errorf("%s was asked to finish: %v, and said: %v", path, asked, said)
		}
	}
	for _, path := range []string{"t/w/w-2", "t/w/w-3"} {
		if all := f.events(event.AgentDrainEnded, path); len(all) != 1 {
			t.Errorf("%s goes on: %v", path, all)
		}
	}
	scaled := f.events(event.PoolScaled, "t/w")
	var sizes []any
	for _, e := range scaled {
		sizes = append(sizes, decode(t, e)["to"])
	}
	if got := fmt.Sprint(sizes); got != "[2 11 1 3]" {
		t.Errorf("the sizes were %s", got)
	}
	f.do("stop", "w")
	if n := f.countRunning(); n != 0 {
		t.Errorf("the pool is stopped, and %d of it live", n)
	}
	f.do("start", "w")
	f.awaitInstances("w-1 2 running, w-2 2 running, w-3 2 running")
}

// An instance that does not drain in time is stopped.
func TestPoolDrainTimeout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fastChecks, poolTOML(drainingScript, `max = 2`, `check = "cat size"`, `drain_timeout = "1s"`, `on_death = "echo $COPPICE_INSTANCE >> deaths"`))
	f.setCheckOutput("2")
	f.do("up", "-d")
	f.setCheckOutput("1")
	f.awaitInstances("w-1 1 running")
	all := f.events(event.AgentDrained, "t/w/w-2")
	if len(all) != 1 || all[0].Message != "t/w/w-2 did not finish in time, and is stopped" {
		t.Errorf("it was drained: %v", all)
	}
	if f.has("deaths") {
		t.Errorf("who was stopped has died: %s", f.read("deaths"))
	}
}

// on_death runs for failures only, not for what people, pools, files and daemons stop. on_boot runs
// before the first instance of each daemon.
func TestPoolHooks(t *testing.T) {
	t.Parallel()
	hooks := []string{`min = 2`, `max = 3`, `check = "cat size"`, `drain_timeout = "10m"`,
		`on_boot = "ls env.* >> boots 2>/dev/null; echo boot of $COPPICE_POOL >> boots"`,
		`on_death = "echo $COPPICE_INSTANCE $COPPICE_INCARNATION $COPPICE_EXIT ${COPPICE_EXIT_CODE-}${COPPICE_EXIT_SIGNAL-} >> deaths"`}
	script := `trap 'exit 0' USR2; ` + drainingScript
	f := newFleet(t, fastChecks, poolTOML(script, hooks...))
	var deaths []string
	died := func(line string) {
		t.Helper()
		deaths = append(deaths, line)
		want := strings.Join(deaths, "\n") + "\n"
		eventually(t, line, func() bool { return f.has("deaths") && strings.Count(f.read("deaths"), "\n") >= len(deaths) })
		if got := f.read("deaths"); got != want {
			t.Fatalf("deaths are\n%swant\n%s", got, want)
		}
	}
	f.setCheckOutput("3")
	f.do("up", "-d")
	if got := f.read("boots"); got != "boot of w\n" {
		t.Errorf("before the first instance there is %q", got)
	}
	killAndWait(t, f.node("t/w/w-1").PID)
	died("1 1 killed SIGKILL")
	f.awaitInstances("w-1 2 running, w-2 1 running, w-3 1 running")
	exectest.Signal(t, f.node("t/w/w-2").PID, syscall.SIGUSR2) // it exits on its own, with 0
	died("2 1 normal")
	f.awaitInstances("w-1 2 running, w-2 2 running, w-3 1 running")

	f.do("restart", "w/w-1")
	f.do("stop", "w/w-2")
	f.do("start", "w/w-2")
	f.setCheckOutput("2")
	f.awaitFile("told.3")
	f.touch("ok.3")
	f.awaitInstances("w-1 3 running, w-2 3 running")
	f.awaitAfter(event.ConfigReloaded, "", func() { f.rewrite(fastChecks, poolTOML("export CHANGED=1; "+script, hooks...)) })
	f.awaitInstances("w-1 4 running, w-2 4 running")
	f.crash()
	f.do("up", "-d")
	f.awaitInstances("w-1 4 running, w-2 4 running")
	if got := strings.Count(f.read("boots"), "boot of w\n"); got != 2 {
		t.Errorf("on_boot has run %d times", got)
	}
	// The next daemon reports a death that happened without one.
	pid := f.node("t/w/w-2").PID
	f.crash()
	killAndWait(t, pid)
	f.up()
	died("2 4 killed SIGKILL")
	f.awaitInstances("w-1 4 running, w-2 5 running")
	// An instance that crashes while draining has died too.
	f.setCheckOutput("3")
	f.awaitInstances("w-1 4 running, w-2 5 running, w-3 2 running")
	if err := os.Remove(filepath.Join(f.dir, "told.3")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.dir, "ok.3")); err != nil {
		t.Fatal(err)
	}
	f.setCheckOutput("2")
	f.awaitFile("told.3")
	killAndWait(t, f.node("t/w/w-3").PID)
	died("3 2 killed SIGKILL")
	f.awaitInstances("w-1 4 running, w-2 5 running")
	f.do("down")
	if got := strings.Count(f.read("deaths"), "\n"); got != len(deaths) {
		t.Errorf("deaths are\n%s", f.read("deaths"))
	}
}

// A failing check changes and delays nothing, and leaves nothing behind, however it fails.
func TestPoolBadChecks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fastChecks, poolTOML(drainingScript, `max = 5`, `check = "./check"`, `check_timeout = "3s"`))
	becomes := func(script string) {
		t.Helper()
		file := filepath.Join(f.dir, "check")
		write(t, file+".new", "#!/bin/sh\n"+script+"\n")
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	becomes("echo 2")
	f.do("up", "-d")
	const two = "w-1 1 running, w-2 1 running"
	for _, tt := range []struct{ script, problem string }{
		{"echo 4 of them", `^it has printed "4 of them", expected an integer$`},
		{"echo the queue is gone >&2; echo 4; exit 3", `^exit code 3: "the queue is gone"$`},
		{"yes", `too much output`},
		{"echo 4; setsid sleep 1001 & sleep 1000", `^it has not ended within 3s$`},
		{"kill -9 $$", `SIGKILL`},
		{"", `^it has printed nothing, expected an integer$`},
	} {
		becomes(tt.script)
		re := regexp.MustCompile(tt.problem)
		f.awaitPool(tt.problem, func(p pool.Info) bool { return re.MatchString(p.Error) })
		if got := f.instances(); got != two {
			t.Errorf("with %q there is %s", tt.script, got)
		}
		if out := f.do("explain", "w"); !strings.Contains(out, "failed, so this still holds") {
			t.Errorf("the explanation is\n%s", out)
		}
	}
	becomes("echo 3")
	f.awaitInstances(two + ", w-3 1 running")
	f.awaitPool("answers", func(p pool.Info) bool { return p.Error == "" })
	if f.countProcesses("sleep 1001") > 0 {
		t.Error("what a check has started is still there")
	}
	if all := f.events(event.PoolCheckFailed, "t/w"); len(all) != 6 {
		t.Errorf("failures: %v", all)
	}
	if all := f.events(event.PoolCheckRecovered, "t/w"); len(all) != 1 {
		t.Errorf("recoveries: %v", all)
	}
}

// The daemon is killed during a drain and a hanging check. The next one continues with both, and
// duplicates neither.
func TestPoolOfKilledDaemon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fastChecks, poolTOML(drainingScript, `max = 4`, `check = "./check"`, `drain_timeout = "10m"`, `check_timeout = "10m"`))
	write(t, filepath.Join(f.dir, "check"), "#!/bin/sh\nn=$(cat size)\n[ -e hang ] && { : > hangs; sleep 1002; }\necho $n\n")
	f.setCheckOutput("3")
	f.do("up", "-d")
	f.setCheckOutput("1")
	f.awaitFile("told.3")
	f.awaitFile("told.2")
	f.touch("hang")
	f.awaitFile("hangs")
	f.touch("ok.3")
	f.awaitInstances("w-1 1 running, w-2 1 running")
	before := f.nodes()
	f.crash()
	if err := os.Remove(filepath.Join(f.dir, "hang")); err != nil {
		t.Fatal(err)
	}
	f.do("up", "-d")
	if f.countProcesses("sleep 1002") > 0 {
		t.Error("the check of the last daemon still hangs")
	}
	if got := f.instances(); got != "w-1 1 running, w-2 1 running" {
		t.Errorf("the next daemon has %s", got)
	}
	for _, was := range before {
		if n := f.node(was.Path); n.PID != was.PID {
			t.Errorf("%s is process %d, was %d", n.Path, n.PID, was.PID)
		}
	}
	if d := f.node("t/w/w-2").Drain; d == nil || d.Left > 600 {
		t.Errorf("the second one is still to finish: %+v", d)
	}
	f.setCheckOutput("2")
	f.awaitPool("lets it go on", func(p pool.Info) bool { return p.Size == 2 && p.Draining == 0 })
	f.touch("ok.2") // it was told once, and says that it has finished, which no longer matters
	f.setCheckOutput("3")
	f.awaitInstances("w-1 1 running, w-2 1 running, w-3 2 running")
	if n := f.countRunning(); n != 3 {
		t.Errorf("there are %d instances", n)
	}
}

// The next daemon ends the check of a killed daemon, even if it has no pool.
func TestPoolCheckOfKilledDaemon(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hangs := poolTOML(drainingScript, `check = "./check"`, `check_timeout = "10m"`)
	write(t, filepath.Join(f.dir, "check"), "#!/bin/sh\n[ -e hang ] && { setsid sleep 1004 & sleep 1005; }\necho 0\n")
	another := chatterTOML("a", "sleep 1006")
	leaves := func() {
		t.Helper()
		os.Remove(filepath.Join(f.dir, "hang"))
		f.rewrite(hangs, another)
		f.do("up", "-d")
		f.touch("hang")
		f.do("patrol")
		eventually(t, "both of them", func() bool { return f.countProcesses("sleep 1004") == 1 && f.countProcesses("sleep 1005") == 1 })
		f.crash()
		if f.countProcesses("sleep 1004") != 1 {
			t.Error("the check of the last daemon no longer runs")
		}
	}
	leaves()
	f.rewrite(another)
	f.do("up", "-d")
	eventually(t, "their end", func() bool { return f.countProcesses("sleep 1004")+f.countProcesses("sleep 1005") == 0 })
	f.do("down")
	leaves()
	f.do("down")
	if n := f.countProcesses("sleep 1004") + f.countProcesses("sleep 1005"); n > 0 {
		t.Errorf("after coppice down %d of a check are left", n)
	}
}

// A change of the file applies at once and touches no working instance. Names come from a file.
func TestPoolReload(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	write(t, filepath.Join(f.dir, "crew"), "# who there is\nada\nbob\n\ncid\n")
	becomes := func(keys ...string) {
		t.Helper()
		f.rewrite(fastChecks, poolTOML(drainingScript, append(keys, `check = "cat size"`, `drain_timeout = "1s"`)...))
		if out, err := f.try("reload"); err != nil {
			t.Fatalf("reload: %v: %s", err, out)
		}
	}
	f.setCheckOutput("9")
	f.rewrite(fastChecks, poolTOML(drainingScript, `max = 2`, `check = "cat size"`, `drain_timeout = "1s"`))
	f.do("up", "-d")
	f.awaitInstances("w-1 1 running, w-2 1 running")
	pid := f.node("t/w/w-1").PID
	becomes(`max = 3`)
	f.awaitInstances("w-1 1 running, w-2 1 running, w-3 1 running")
	becomes(`max = 1`)
	f.awaitInstances("w-1 1 running")
	if got := f.node("t/w/w-1").PID; got != pid {
		t.Errorf("it is process %d, was %d", got, pid)
	}
	becomes(`namepool = "crew"`, `max = 2`)
	f.awaitInstances("ada 1 running, bob 1 running")
	if got := f.read("env.2"); got != "w 2 t/w/bob\n" {
		t.Errorf("bob is told %q", got)
	}
	becomes(`namepool = ["bob", "eve"]`)
	f.awaitInstances("bob 1 running, eve 1 running")
	var paths []string
	for _, e := range f.events(event.AgentDrained, "t/w/ada") {
		paths = append(paths, e.Path)
	}
	if !slices.Equal(paths, []string{"t/w/ada"}) {
		t.Errorf("drained were %q", paths)
	}
}

// A dry run shows the wanted size, not only the minimum. Without a daemon it runs the checks; with
// one it uses their last results. It starts and stops no instance.
func TestPoolDryRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[daemon]\npatrol_interval = \"1h\"\n\n", poolTOML(drainingScript, `max = 4`, `check = "echo asked >> asked; cat size"`, `drain_timeout = "10m"`))
	says := func(want string, command ...string) {
		t.Helper()
		out := regexp.MustCompile(`, [0-9.hms]+ ago`).ReplaceAllString(f.do(command...), "")
		if got := strings.TrimSpace(out); got != want {
			t.Errorf("%q says\n%s\nwant\n%s", command, got, want)
		}
	}
	f.setCheckOutput("3")
	says(`pool    t/w: 3 wanted (0..4), 0 live; its check said 3
start   t/w/w-1: it does not run
start   t/w/w-2: it does not run
start   t/w/w-3: it does not run`, "up", "--dry-run")
	if n := f.countRunning(); n != 0 || f.has(".coppice") {
		t.Errorf("after a dry run %d live", n)
	}
	if err := os.Remove(filepath.Join(f.dir, "size")); err != nil {
		t.Fatal(err)
	}
	if out := f.do("up", "-n"); !strings.Contains(out, "0 wanted (0..4), 0 live; the check fails: exit code 1") || !strings.Contains(out, "; no check has answered yet") || !strings.Contains(out, "nothing to do") {
		t.Errorf("with a check that fails it says\n%s", out)
	}
	f.setCheckOutput("3")
	f.do("up", "-d")
	f.awaitInstances("w-1 1 running, w-2 1 running, w-3 1 running")
	asked := f.read("asked")
	const atRest = "pool    t/w: 3 wanted (0..4), 3 live; its check said 3\nnothing to do: what runs is what the file says"
	f.setCheckOutput("1")
	says(atRest, "up", "--dry-run")
	says(atRest, "patrol", "--dry-run")
	if f.read("asked") != asked {
		t.Error("a dry run has had a daemon run its checks")
	}
	if out := f.do("up", "-n", "--json"); !strings.Contains(out, `"pools":[{"path":"t/w","pool":{"size":3,`) {
		t.Errorf("as JSON it says\n%s", out)
	}
	f.crash()
	says(`pool    t/w: 1 wanted (0..4), 3 live; its check said 1
drain   t/w/w-3: no longer wanted
drain   t/w/w-2: no longer wanted`, "up", "--dry-run")
	if err := os.Remove(filepath.Join(f.dir, "size")); err != nil {
		t.Fatal(err)
	}
	if out := f.do("up", "-n"); !strings.Contains(out, "3 wanted (0..4), 3 live; the check fails") || !strings.Contains(out, "nothing to do") {
		t.Errorf("with a check that fails it says\n%s", out)
	}
	if n := f.countRunning(); n != 3 || f.has("told.3") {
		t.Errorf("after dry runs %d live", n)
	}
	f.setCheckOutput("3")
	f.do("up", "-d")
	f.awaitInstances("w-1 1 running, w-2 1 running, w-3 1 running")
}

// A pool removed from the file is drained, also across a crash of the daemon. Its replacement
// starts when the last instance is gone.
func TestPoolRetires(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fastChecks, poolTOML(drainingScript, `max = 3`, `check = "cat size"`, `drain_timeout = "10m"`, `on_death = "echo $COPPICE_INSTANCE >> deaths"`))
	f.setCheckOutput("3")
	f.do("up", "-d")
	f.awaitInstances("w-1 1 running, w-2 1 running, w-3 1 running")
	f.awaitAfter(event.ConfigReloaded, "1 removed", func() { f.rewrite(chatterTOML("w", "echo alone > alone; sleep 1003")) })
	for i := range 3 {
		f.awaitFile(fmt.Sprintf("told.%d", i+1))
	}
	if out := f.do("tree"); !strings.Contains(out, "no longer in the file, 3 live, 3 to finish") {
		t.Errorf("the tree is\n%s", out)
	}
	if out := f.do("patrol", "--dry-run"); !strings.Contains(out, "pool    t/w: no longer in the file, 3 live, 3 to finish; its check is not asked") {
		t.Errorf("the patrol says\n%s", out)
	}
	f.touch("ok.1")
	f.awaitInstances("w-2 1 running, w-3 1 running")
	before := f.nodes()
	f.crash()
	f.do("up", "-d")
	if got := f.instances(); got != "w-2 1 running, w-3 1 running" {
		t.Errorf("the next daemon has %s", got)
	}
	for _, was := range before {
		if n := f.node(was.Path); n.PID != was.PID {
			t.Errorf("%s is process %d, was %d", n.Path, n.PID, was.PID)
		}
	}
	killAndWait(t, f.node("t/w/w-3").PID) // and dies during the drain
	f.awaitInstances("w-2 1 running")
	eventually(t, "a death", func() bool { return f.has("deaths") && f.read("deaths") == "3\n" })
	if f.has("alone") {
		t.Error("the agent runs beside the last instance")
	}
	f.touch("ok.2")
	f.awaitFile("alone")
	if n := f.node("t/w"); n.Kind != "agent" || f.countRunning() != 0 {
		t.Errorf("there is %+v, and %d live", n, f.countRunning())
	}
	for kind, want := range map[event.Type]int{event.PoolRetired: 1, event.PoolRemoved: 1, event.PoolReturned: 0} {
		if all := f.events(kind, "t/w"); len(all) != want {
			t.Errorf("%s: %v", kind, all)
		}
	}
}

// The examples in docs/pools.md work.
func TestPoolsDoc(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "pools.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := project(t, fastChecks, block(t, string(data), "toml"))
	write(t, filepath.Join(dir, "worker.sh"), strings.Replace(block(t, string(data), "sh"), "\n", "\nexport GORACE=atexit_sleep_ms=0\n", 1))
	for _, name := range []string{"queue/a", "queue/b", "queue/c", "queue/d", "queue/e", "queue/f"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), "")
	}
	f := fleetOf(t, dir)
	f.do("up", "-d")
	eventually(t, "the end of the work", func() bool {
		done, _ := filepath.Glob(filepath.Join(dir, "done", "*"))
		return len(done) == 6
	})
	f.awaitNode("t/worker", "is as small as it may be", func(n status.Node) bool { return n.Pool.Size == 1 && n.Pool.Instances == 1 })
	if n := f.node("t/worker/worker-1"); n.Incarnation != 1 || n.Drain != nil {
		t.Errorf("the first one is %+v", n)
	}
	if all := f.events(event.PoolScaled, "t/worker"); len(all) < 2 || decode(t, all[0])["to"] == 1.0 {
		t.Errorf("it was scaled: %v", all)
	}
}
