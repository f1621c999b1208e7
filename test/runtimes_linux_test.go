package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
	"github.com/coppice-dev/coppice/internal/status"
)

// needTmux skips a test without tmux, except where all tests are required.
func needTmux(t *testing.T) {
	t.Helper()
	if _, err := tmux.Version(context.Background()); err != nil {
		exectest.Missing(t, err)
	}
}

// awaitNode waits until done accepts a node, checking after each event.
func (f *fleet) awaitNode(path, what string, done func(status.Node) bool) (n status.Node) {
	f.t.Helper()
	r := newCoppice(f.t, "events", "-f", "--json")
	r.start(f.dir)
	defer r.signal(syscall.SIGINT)
	r.out.await(f.t, path+" "+what, func() bool {
		n = f.node(path)
		return done(n)
	})
	return n
}

func (f *fleet) explain(path string) (x status.Explanation) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.do("explain", "--json", path)), &x); err != nil {
		f.t.Fatal(err)
	}
	return x
}

// events returns all events of a type about a path.
func (f *fleet) events(kind event.Type, path string) (all []event.Event) {
	f.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(f.do("events", "--json")), "\n") {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			f.t.Fatal(err)
		}
		if e.Type == kind && e.Path == path {
			all = append(all, e)
		}
	}
	return all
}

// rewrite replaces the file of the project.
func (f *fleet) rewrite(toml ...string) {
	f.t.Helper()
	write(f.t, filepath.Join(f.dir, "coppice.toml"), "[project]\nname = \"t\"\n\n"+strings.Join(toml, ""))
}

const inTmux = `runtime = "tmux"`

// An agent in tmux crashes, restarts, survives its daemon, and ends while none runs.
func TestTmuxAgent(t *testing.T) {
	needTmux(t)
	t.Parallel()
	f := newFleet(t,
		agentTOML("a", `[ $COPPICE_INCARNATION = 1 ] || exec sleep 1000; read x < crash; echo some; echo last words; exit 3`, inTmux),
		agentTOML("unseen", `read x < go; exit 7`, inTmux, `restart = "on-failure"`, `backoff = { kind = "fixed", base = "100s" }`))
	crash, end := fifo(t, f.dir, "crash"), fifo(t, f.dir, "go")
	f.do("up", "-d")
	if n := f.node("t/a"); n.Runtime != "tmux" || n.State != "running" || n.PID == 0 {
		t.Errorf("a: %+v", n)
	}
	crash()
	before := f.awaitNode("t/a", "comes back", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 2 })
	if all := f.events(event.AgentCrashed, "t/a"); len(all) != 1 || !strings.Contains(string(all[0].Data), `"exit code 3"`) ||
		!strings.Contains(string(all[0].Data), `["some","last words"]`) {
		t.Errorf("crashes: %s", all)
	}
	x := f.explain("t/a")
	if tail := strings.Join(x.Tail, "\n"); !strings.Contains(tail, "last words") {
		t.Errorf("explain shows the output %q", tail)
	}
	if !strings.Contains(x.Hint, "coppice attach t/a") || !strings.Contains(x.Hint, "tmux -S") {
		t.Errorf("explain says %q", x.Hint)
	}
	if out := f.do("logs", "t/a"); !strings.Contains(out, "last words") {
		t.Errorf("logs: %q", out)
	}

	f.crash()
	unseen := awaitOne(t, f.dir, "read x < go")
	end()
	unseen.awaitEnd(t)
	f.up()
	if after := f.node("t/a"); after.PID != before.PID || after.Incarnation != 2 || after.State != "running" {
		t.Errorf("after: %+v, before: %+v", after, before)
	}
	f.awaitState("t/unseen", "restarting")
	if n := len(f.events(event.AgentCrashed, "t/unseen")); n != 1 {
		t.Errorf("the end of unseen was told %d times", n)
	}
	if out := f.do("doctor"); !strings.Contains(out, "1 live") || !regexp.MustCompile(`ok +tmux +version \d`).MatchString(out) {
		t.Errorf("doctor: %s", out)
	}
	f.do("down")
	if left := processesIn(t, f.dir); len(left) > 0 {
		for _, p := range left {
			p.awaitEnd(t) // including the tmux server
		}
	}
	f.do("up", "-d")
	if n := f.node("t/a"); n.State != "running" || n.Incarnation != 3 {
		t.Errorf("after down and up: %+v", n)
	}
	f.do("stop", "t/a")
	if n := f.node("t/a"); n.State != "stopped" {
		t.Errorf("stopped: %+v", n)
	}
}

// A slot with a damaged record still belongs to its agent.
func TestDamagedSlots(t *testing.T) {
	needTmux(t)
	t.Parallel()
	f := newFleet(t, agentTOML("tmux", `exec sleep 1000`, inTmux), agentTOML("proc", `exec sleep 1000`))
	f.do("up", "-d")
	before := f.node("t/tmux")
	var shim *process
	for _, p := range processesIn(t, f.dir) {
		if strings.HasPrefix(p.name, "coppice shim run t") {
			shim = &p
		}
	}
	if shim == nil {
		t.Fatal("no shim")
	}
	f.crash()
	shim.kill()
	shim.awaitEnd(t)
	for _, state := range []string{"tmux/*/slot.json", "run/*/lock"} {
		files, err := filepath.Glob(filepath.Join(f.dir, ".coppice", state))
		if err != nil || len(files) != 1 {
			t.Fatal(state, files, err)
		}
		write(t, files[0], `{"vers`)
	}
	f.up()
	if after := f.node("t/tmux"); after.PID != before.PID || after.Incarnation != 1 || after.State != "running" || after.Uptime < 0 || after.Uptime > waitTimeout.Seconds() {
		t.Errorf("tmux: %+v, before: %+v", after, before)
	}
	f.awaitNode("t/proc", "runs again", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 2 })
}

// People attach to agents with a terminal, through coppice and through tmux itself.
func TestAttachTerminals(t *testing.T) {
	needTmux(t)
	t.Parallel()
	const parrot = `echo ready; while read x; do echo "heard $x"; done`
	f := newFleet(t, agentTOML("tmux", parrot, inTmux), agentTOML("proc", parrot, `terminal = true`))
	f.do("up", "-d")
	for _, name := range []string{"proc", "tmux"} {
		s := newScreen(t, f.dir, 80, 24, "coppice attach t/"+name)
		s.await("attached to t/" + name + "|ready")
		s.tmux("send-keys", "polly", "Enter")
		s.await("^heard polly")
		s.tmux("send-keys", "C-]")
		s.await("t/" + name + " keeps running")
	}
	_, command, ok := strings.Cut(f.explain("t/tmux").Hint, "offers: ")
	if !ok {
		t.Fatal(f.explain("t/tmux").Hint)
	}
	s := newScreen(t, f.dir, 80, 24, "unset TMUX; "+command)
	s.await("^heard polly")
	s.tmux("send-keys", "cracker", "Enter")
	s.await("^heard cracker")
	s.tmux("send-keys", "C-b", "d")
	s.await("detached")
	for _, path := range []string{"t/tmux", "t/proc"} {
		if n := f.node(path); n.State != "running" || n.Incarnation != 1 {
			t.Errorf("%s: %+v", path, n)
		}
	}
}

// Without a terminal to attach to, attach says so with a remedy, before it changes the terminal.
func TestAttachRefused(t *testing.T) {
	needTmux(t)
	t.Parallel()
	f := newFleet(t, agentTOML("plain", `exec sleep 1000`), agentTOML("proc", `exec sleep 1000`, `terminal = true`))
	f.do("up", "-d")
	s := newScreen(t, f.dir, 80, 24, "coppice attach plain")
	if text := s.wantEnd(1); strings.Contains(text, "attached") || !strings.Contains(text, "has no terminal") {
		t.Errorf("attach to pipes: %s", text)
	}
	for _, watch := range [][]string{{"attach", "plain"}, {"attach", "--watch", "plain"}} {
		if out := f.wantCode(1, watch...); !strings.Contains(out, "terminal = true") {
			t.Errorf("%q: %s", watch, out)
		}
	}
	if out := f.wantCode(2, "attach", "proc"); !strings.Contains(out, "coppice attach --watch proc only shows") {
		t.Errorf("attach on pipes: %s", out)
	}
	f.do("stop", "proc")
	if out := f.wantCode(1, "attach", "proc"); out != "coppice: not possible now: t/proc is stopped; see: coppice explain t/proc\n" {
		t.Errorf("attach to what is stopped: %s", out)
	}
}

// An agent runs once, however its runtime changes.
func TestRuntimeChanges(t *testing.T) {
	needTmux(t)
	t.Parallel()
	agents := func(runtime string) []string {
		return []string{
			agentTOML("a", `exec sleep 12321`, runtime),
			agentTOML("stopped", `exec sleep 23432`, runtime),
			agentTOML("unseen", `read x < go; exit 7`, runtime, `restart = "on-failure"`, `backoff = { kind = "fixed", base = "100s" }`),
		}
	}
	f := newFleet(t, agents("")...)
	end := fifo(t, f.dir, "go")
	f.do("up", "-d")
	f.do("stop", "t/stopped")
	before := f.node("t/a")
	slots := func(dir string) int {
		found, err := filepath.Glob(filepath.Join(f.dir, ".coppice", dir, "*-a"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	once := func() {
		t.Helper()
		found := 0
		for _, p := range processesIn(t, f.dir) {
			if strings.Contains(p.name, "sleep 12321") { // or the shell before its exec
				found++
			}
		}
		if found != 1 {
			t.Errorf("the agent runs %d times", found)
		}
	}

	f.crash()
	unseen := awaitOne(t, f.dir, "read x < go")
	end()
	unseen.awaitEnd(t)
	f.rewrite(agents(inTmux)...)
	if out := f.do("doctor"); !strings.Contains(out, "t/a runs in runtime proc") {
		t.Errorf("doctor: %s", out)
	}
	f.up()
	once()
	if n := f.node("t/a"); n.Runtime != "tmux" || n.PID == before.PID || n.Incarnation != 2 || n.Restarts != 0 || n.State != "running" {
		t.Errorf("a: %+v", n)
	}
	if all := f.events(event.AgentStopped, "t/a"); len(all) != 1 || all[0].Incarnation != 1 || !strings.Contains(all[0].Message, "moves from proc to tmux") {
		t.Errorf("a was stopped: %s", all)
	}
	if slots("run") != 0 || slots("tmux") != 1 {
		t.Errorf("%d slots of processes and %d of tmux", slots("run"), slots("tmux"))
	}
	if n := f.node("t/stopped"); n.State != "stopped" {
		t.Errorf("stopped: %+v", n)
	}
	f.awaitNode("t/unseen", "runs at once: it runs something else now", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 2 })
	eventually(t, "its end", func() bool { return len(f.events(event.AgentCrashed, "t/unseen")) > 0 })
	if n := len(f.events(event.AgentCrashed, "t/unseen")); n != 1 {
		t.Errorf("the end of unseen was told %d times", n)
	}

	f.do("down", "--keep-agents")
	f.rewrite(agents("")...)
	f.do("up", "-d")
	once()
	if n := f.node("t/a"); n.Runtime != "proc" || n.Incarnation != 3 || n.Restarts != 0 || n.State != "running" {
		t.Errorf("a, back again: %+v", n)
	}
	if slots("run") != 1 || slots("tmux") != 0 {
		t.Errorf("%d slots of processes and %d of tmux", slots("run"), slots("tmux"))
	}
	f.do("start", "t/stopped")
	f.awaitNode("t/unseen", "runs", func(n status.Node) bool { return n.State == "running" && n.Runtime == "proc" })
}

// coppiceIn runs coppice in another environment.
func (f *fleet) coppiceIn(env []string, args ...string) (string, int) {
	f.t.Helper()
	cmd := command(f.t, args...)
	cmd.Dir, cmd.Env = f.dir, env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		f.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// environWithout returns the environment without a variable, and with others.
func environWithout(name string, others ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, name+"=") {
			env = append(env, kv)
		}
	}
	return append(env, others...)
}

// Only agents that use tmux need it.
func TestNoTmux(t *testing.T) {
	needTmux(t)
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	bin := t.TempDir()
	for _, name := range []string{"sh", "sleep"} {
		file, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(file, filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	env := environWithout("PATH", "PATH="+bin)
	if out, code := f.coppiceIn(env, "up", "-d"); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if out, _ := f.coppiceIn(env, "doctor"); !strings.Contains(out, "no agent of the file needs it") {
		t.Errorf("doctor: %s", out)
	}
	f.do("down")

	f.rewrite(agentTOML("a", `exec sleep 1000`, inTmux))
	if out, code := f.coppiceIn(env, "up", "-d"); code != 78 || !strings.Contains(out, "coppice.toml:10:11: tmux is not installed") {
		t.Errorf("exit code %d: %s", code, out)
	}
	f.do("up", "-d")
	f.do("down", "--keep-agents")
	f.rewrite(agentTOML("b", `exec sleep 1000`))
	if out, code := f.coppiceIn(env, "up", "-d"); code != 1 || !strings.Contains(out, "only tmux can tell") || !regexp.MustCompile(`kill \d\d+`).MatchString(out) {
		t.Errorf("exit code %d: %s", code, out)
	}
	f.do("up", "-d") // which stops removed agents
	for _, p := range processesIn(t, f.dir) {
		if strings.Contains(p.name, "tmux") {
			p.awaitEnd(t)
		}
	}
}

// Limits in the file apply to the process itself.
func TestAgentLimits(t *testing.T) {
	needTmux(t)
	t.Parallel()
	const (
		limits = `limits = { memory = "768MiB", open_files = 123, processes = 4321, cpu = 0.5 }`
		ready  = `ready = { log = "up" }`
		script = `echo up; exec sleep 1000`
	)
	f := newFleet(t, agentTOML("proc", script, ready, limits), agentTOML("tmux", script, ready, limits, inTmux), agentTOML("free", script, ready))
	f.do("up", "-d")
	limit := func(path, name string) string {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", f.node(path).PID))
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, f.do("explain", path), f.do("logs", path))
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, name); ok {
				return strings.Join(strings.Fields(rest)[:2], " ")
			}
		}
		t.Fatalf("no %s in %s", name, text)
		return ""
	}
	for name, want := range map[string]string{"Max open files": "123 123", "Max processes": "4321 4321", "Max address space": "805306368 805306368"} {
		for _, path := range []string{"t/proc", "t/tmux"} {
			if got := limit(path, name); got != want {
				t.Errorf("%s: %s: %s, want %s", path, name, got, want)
			}
		}
		if got := limit("t/free", name); got == want {
			t.Errorf("free: %s: %s", name, got)
		}
	}
	if out := f.do("doctor"); strings.Count(out, "cpu of t/proc, t/tmux is not enforced") != 1 {
		t.Errorf("doctor: %s", out)
	}
}

func TestAgentTerminal(t *testing.T) {
	t.Parallel()
	const look = `tty; [ -t 1 ] && echo "out: $TERM" || echo pipe; exec sleep 1000`
	f := newFleet(t, agentTOML("terminal", look, `terminal = true`, `ready = { log = "out: |pipe" }`), agentTOML("pipes", look, `ready = { log = "out: |pipe" }`))
	if out, code := f.coppiceIn(environWithout("TERM"), "up", "-d"); code != 0 { // as under a service manager
		t.Fatal(out)
	}
	if out := f.do("logs", "t/terminal"); !regexp.MustCompile(`^/dev/pts/\d+\r?\nout: xterm-256color`).MatchString(out) {
		t.Errorf("with a terminal: %q", out)
	}
	if out := f.do("logs", "t/pipes"); !strings.Contains(out, "not a tty\n") || !strings.Contains(out, "pipe\n") {
		t.Errorf("with pipes: %q", out)
	}
}

// Decisions of limits survive the daemon, except for quarantines, or as the file says. Decisions of
// people always do.
func TestPersist(t *testing.T) {
	t.Parallel()
	for name, persist := range map[string]string{"most": "", "all": "persist = true", "nothing": "persist = false"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const fails = `[ -e mended ] && exec sleep 1000; exit 3`
			f := newFleet(t,
				"[supervision]\non_limit = \"escalate\"\n"+persist+"\n\n",
				agentTOML("given_up", fails, `on_limit = "give_up"`, `max_restarts = 2`),
				agentTOML("quarantined", fails, `max_restarts = 2`, `restart_window = "1h"`),
				agentTOML("restarting", fails, `backoff = { kind = "fixed", base = "5m" }`),
				"[[supervisor]]\nname = \"pool\"\nchildren = [\"paused\"]\n\n",
				agentTOML("paused", fails, `on_limit = "pause"`, `max_restarts = 1`, `restart_window = "1h"`),
				agentTOML("stopped", `exit 0`, `restart = "on-failure"`),
				agentTOML("by_hand", `exec sleep 1000`),
				agentTOML("delayed", fails, `backoff = { kind = "fixed", base = "5m" }`))
			f.up()
			f.do("stop", "t/by_hand")
			f.awaitState("t/delayed", "restarting")
			f.do("stop", "t/delayed") // no process of it runs
			f.awaitState("t/delayed", "stopped")
			eventually(t, "the record of the stop", func() bool { return len(f.events("agent.changed", "t/delayed")) > 0 })
			forgotten := map[string][]string{"most": {"t/quarantined"}, "nothing": {"t/given_up", "t/quarantined", "t/restarting"}}[name]
			held := map[string]string{
				"t/given_up": "given_up", "t/quarantined": "quarantined", "t/restarting": "restarting",
				"t/stopped": "stopped", "t/by_hand": "stopped", "t/pool/paused": "paused",
			}
			before := map[string]status.Node{"t/delayed": f.node("t/delayed")}
			for path, state := range held {
				before[path] = f.awaitState(path, state)
			}
			f.crash()
			write(t, filepath.Join(f.dir, "mended"), "")
			f.up()
			for path, was := range before {
				n := f.node(path)
				switch {
				case !slices.Contains(forgotten, path):
					if n.State != was.State || n.Incarnation != was.Incarnation || name != "nothing" && n.Restarts != was.Restarts {
						t.Errorf("%+v, before %+v", n, was)
					}
				case n.State != "running" || n.Restarts != 0 || n.Incarnation != was.Incarnation+1:
					t.Errorf("%+v, before %+v", n, was)
				}
			}
			if told := len(f.events("agent.released", "t/quarantined")); told == 0 && name != "all" || told > 1 {
				t.Errorf("the end of its quarantine was told %d times", told)
			}
		})
	}
}
