package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/status"
)

const guardText = `
agent Counter {
    step: Int
    @persistent n: Int
    on waking { print("waking {self.n}"); }
    on start { self.n.set(self.n + self.step); print("count {self.n}"); }
    on message(m: Int) { }
    on resting { print("resting"); }
}
agent Setup {
    use Shell
    on start { let r = try Shell.run(["grep", "realtime timeout", "/proc/self/limits"]); print(r.stdout); }
    on error(e) { print("{e}"); }
}
agent Helper { @persistent n: Int on start { self.n += 1; print("help {self.n}"); receive_nothing(); } }
agent Boss { on start { let h = summon Helper { }; let r = await h catch { }; } }
fn receive_nothing() { loop { sleep_ms(1000); } }
supervisor Inner { strategy: OneForAll children { Boss { restart: Permanent } } }
supervisor Guard {
    strategy: OneForOne
    children {
        "db" { restart: Permanent }
        Counter { restart: Permanent step: 1 }
        Counter { restart: Permanent step: 10 }
        Setup { restart: Temporary }
        Inner { restart: Permanent }
    }
}
run Guard;
`

// saidLines returns the last lines that an agent has printed.
func (f *fleet) saidLines(c *api.Client, path string) []string { return f.lastLines(c, path, 100) }

func (f *fleet) lastLines(c *api.Client, path string, most int) (lines []string) {
	ctx, cancel := context.WithTimeout(f.t.Context(), waitTimeout)
	defer cancel()
	for line, err := range output.Logs(ctx, c, output.Query{Paths: []string{path}, Lines: most}) {
		if err != nil {
			return nil
		}
		if line.Between == nil {
			lines = append(lines, line.Line)
		}
	}
	return lines
}

func (f *fleet) awaitSaid(c *api.Client, path string, want ...string) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%s saying %q", path, want), func() bool { return slices.Equal(f.saidLines(c, path), want) })
}

// awaitHistory waits for an event, written "TYPE PATH INCARNATION".
func (f *fleet) awaitHistory(what string) {
	f.t.Helper()
	eventually(f.t, what, func() bool {
		told, _ := f.history()
		return told[what] > 0
	})
}

// Agents of a program are next to processes, as their siblings. They run in a process of their own,
// which outlives the daemon.
func TestSageInDaemon(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	f := newFleet(t, "program = \"guard.sg\"\n\n", agentTOML("db", "exec sleep 1000"), agentTOML("other", "exec sleep 1000"))
	write(t, filepath.Join(f.dir, "guard.sg"), guardText)
	if got, want := f.do("validate"), "coppice.toml is valid: 6 agents, 2 supervisors\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.do("up", "-d")
	c := f.client()
	f.awaitSaid(c, "t/Guard/Counter", "waking 0", "count 1")
	f.awaitSaid(c, "t/Guard/Counter-2", "waking 0", "count 10")
	f.awaitSaid(c, "t/Guard/Inner/Boss", "Helper: help 1")
	f.awaitHistory("agent.exited t/Guard/Setup 1")
	if said := f.saidLines(c, "t/Guard/Setup"); len(said) == 0 || strings.Contains(said[0], "timeout      unlimited") {
		t.Errorf("a command without the mark of its agent: %q", said)
	}
	db := f.node("t/Guard/db").PID
	if db <= 0 {
		t.Fatal("db does not run")
	}

	// They support the usual commands: tree, explain, restart, stop, start, beliefs.
	if got := f.do("tree"); !strings.Contains(got, "Guard (one_for_one)") || !strings.Contains(got, "Inner (one_for_all)") {
		t.Errorf("tree:\n%s", got)
	}
	explained := f.do("explain", "Guard/Counter")
	if !strings.Contains(explained, "in program") || !strings.Contains(explained, "| count 1") {
		t.Errorf("explain:\n%s", explained)
	}
	f.do("restart", "Guard/Counter")
	f.awaitSaid(c, "t/Guard/Counter", "waking 0", "count 1", "resting", "waking 1", "count 2")
	f.do("stop", "Guard/Counter-2")
	if n := f.node("t/Guard/Counter-2"); n.State != "stopped" {
		t.Errorf("%+v", n)
	}
	if got := f.belief("Guard/Counter"); got != `{"n":2}` {
		t.Errorf("beliefs %s", got)
	}

	unchanged := func() {
		t.Helper()
		f.wantSaid(c, "t/Guard/Counter", "waking 0", "count 1", "resting", "waking 1", "count 2")
		f.wantSaid(c, "t/Guard/Inner/Boss", "Helper: help 1")
		for path, want := range map[string]uint64{"Counter": 2, "Counter-2": 1, "Setup": 1, "db": 1, "Inner/Boss": 1} {
			if n := f.node("t/Guard/" + path); n.Incarnation != want || n.InWindow != 0 {
				t.Errorf("%s: %+v", path, n)
			}
		}
	}
	f.crash()
	f.do("up", "-d")
	unchanged()
	f.do("down", "--keep-agents")
	f.do("up", "-d")
	unchanged()
	if n := f.node("t/Guard/Counter-2"); n.State != "stopped" {
		t.Errorf("what was stopped by hand is %s", n.State)
	}
	f.do("start", "Guard/Counter-2")
	f.awaitSaid(c, "t/Guard/Counter-2", "waking 0", "count 10", "resting", "waking 10", "count 20")

	// The end of the process is that of its agents, and of nothing else.
	processes := f.programs()
	if len(processes) != 1 {
		t.Fatalf("processes of programs: %v, expected one", processes)
	}
	exectest.Signal(t, processes[0], syscall.SIGKILL)
	f.awaitSaid(c, "t/Guard/Counter", "waking 0", "count 1", "resting", "waking 1", "count 2", "waking 2", "count 3")
	f.awaitSaid(c, "t/Guard/Inner/Boss", "Helper: help 1", "Helper: help 2")
	if n := f.node("t/Guard/db"); n.PID != db || n.Incarnation != 1 {
		t.Errorf("db is %+v, was process %d", n, db)
	}
	told, _ := f.history()
	for what, want := range map[string]int{
		"agent.started t/Guard/Setup 1": 1, "agent.started t/Guard/Setup 2": 0, "agent.started t/Guard/db 2": 0,
		"agent.started t/Guard/Counter 2": 1, "agent.started t/Guard/Counter 3": 1,
		"agent.started t/Guard/Counter 4": 0,
	} {
		if told[what] != want {
			t.Errorf("%s: %d times, want %d", what, told[what], want)
		}
	}
}

// wantSaid is awaitSaid without a wait.
func (f *fleet) wantSaid(c *api.Client, path string, want ...string) {
	f.t.Helper()
	if got := f.saidLines(c, path); !slices.Equal(got, want) {
		f.t.Errorf("%s has said %q, want %q", path, got, want)
	}
}

// programs returns the pids of the processes of programs.
func (f *fleet) programs() (all []int) {
	f.t.Helper()
	for _, pid := range f.shims() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasSuffix(string(line), "\x00"+server.ProgramArg+"\x00") {
			all = append(all, pid)
		}
	}
	return all
}

// shims returns the pids of the shims of agents, with those of programs.
func (f *fleet) shims() (all []int) {
	f.t.Helper()
	return shimsOf(f.t, f.state("run"))
}

// shimsOf returns the pids of the shims of the slots in a directory.
func shimsOf(t *testing.T, slots string) (all []int) {
	t.Helper()
	pids, err := proc.PIDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if _, dir, ok := wire.ShimIn(pid); ok && dir == slots {
			all = append(all, pid)
		}
	}
	return all
}

// An agent of a program goes on while no daemon runs, and waits with its beliefs for the next one. It
// says nothing twice.
func TestSageOutlivesDaemon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "program = \"p.sg\"\n\n", agentTOML("other", "exec sleep 1000"))
	write(t, filepath.Join(f.dir, "p.sg"), `
agent Counts { @persistent n: Int on start { loop { self.n += 1; print("{self.n}"); sleep_ms(1); } } }
agent Boss { on start { let h = summon Counts { }; let r = await h catch { }; } }
supervisor S { strategy: OneForOne children { Counts { restart: Permanent } Boss { restart: Transient } } }
run S;
`)
	f.do("up", "-d")
	c := f.client()
	said := func(path string) int { return len(f.lastLines(c, path, 1_000_000)) }
	for range 5 {
		a, b := said("t/S/Counts"), said("t/S/Boss")
		eventually(t, "more lines", func() bool { return said("t/S/Counts") > a+20 && said("t/S/Boss") > b+20 })
		f.crash()
		f.do("up", "-d")
	}
	f.do("down")
	f.do("up", "-d")
	for path, prefix := range map[string]string{"t/S/Counts": "", "t/S/Boss": "Counts: "} {
		if n := f.node(path); n.Incarnation != 2 {
			t.Errorf("%s is incarnation %d, expected 2", path, n.Incarnation)
		}
		for i, line := range f.lastLines(c, path, 1_000_000) {
			if want := fmt.Sprint(prefix, i+1); line != want {
				t.Fatalf("%s: line %d is %q, want %q", path, i+1, line, want)
			}
		}
	}
}

// An agent that allocates without end fails alone.
func TestSageMemory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "program = \"p.sg\"\n[daemon]\nprogram_memory = \"64MiB\"\n",
		agentTOML("other", "exec sleep 1000"))
	write(t, filepath.Join(f.dir, "p.sg"), `
agent Grows {
    on start { let all = ["a"]; loop { all = all.push("{all.len()} and some more text for it to be large"); } }
}
agent Rests { on start { loop { sleep_ms(1000); } } }
supervisor S { strategy: OneForOne children { Grows { restart: Temporary } Rests { restart: Permanent } } }
run S;
`)
	f.try("up", "-d") // says that one is not well
	f.awaitHistory("agent.crashed t/S/Grows 1")
	const limit = "more memory is in use than the limit of 8388608 bytes"
	if got := f.do("explain", "S/Grows"); !strings.Contains(got, limit) {
		t.Errorf("explain:\n%s", got)
	}
	for _, path := range []string{"t/other", "t/S/Rests"} {
		if n := f.node(path); n.Incarnation != 1 || n.State != "running" {
			t.Errorf("%+v", n)
		}
	}
}

// A program changes while it runs. An invalid version is rejected; a valid one replaces the running
// one and keeps its beliefs.
func TestSageReload(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "program = \"p\"\n\n", agentTOML("db", "exec sleep 1000"))
	text := func(says string) string {
		return "mod lib;\nagent A { @persistent n: Int on start { self.n += 1; print(\"" + says + " {lib::twice(self.n)}\"); } on message(m: Int) { } }\n" +
			"supervisor S { strategy: OneForOne children { \"db\" { } A { } } }\nrun S;\n"
	}
	const lib = "pub fn twice(n: Int) -> Int { return n * 2; }\n"
	if err := os.Mkdir(filepath.Join(f.dir, "p"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(f.dir, "p", "grove.toml"), "[project]\nname = \"p\"\nentry = \"main.sg\"\n")
	write(t, filepath.Join(f.dir, "p", "main.sg"), text("one"))
	write(t, filepath.Join(f.dir, "p", "lib.sg"), lib)
	f.do("up", "-d")
	c := f.client()
	f.awaitSaid(c, "t/S/A", "one 2")
	db := f.node("t/S/db").PID

	write(t, filepath.Join(f.dir, "p", "main.sg"), text("two"))
	f.awaitSaid(c, "t/S/A", "one 2", "two 4")
	write(t, filepath.Join(f.dir, "p", "lib.sg"), "pub fn twice(n: Int) -> Int { return true; }\n")
	f.awaitHistory("config.rejected  0")
	if got := f.status().Config.LastError; !strings.Contains(got, "E011") || !strings.Contains(got, "lib.sg:1:") {
		t.Errorf("the reason is %q", got)
	}
	write(t, filepath.Join(f.dir, "p", "lib.sg"), strings.Replace(lib, "* 2", "* 3", 1))
	f.awaitSaid(c, "t/S/A", "one 2", "two 4", "two 9")

	if n := f.node("t/S/db"); n.PID != db || n.Incarnation != 1 {
		t.Errorf("db was touched: %+v", n)
	}
	if n := f.node("t/S/A"); n.InWindow != 0 {
		t.Errorf("changes were counted: %+v", n)
	}
	// Without the program its agents are gone, and the process belongs to the file again.
	write(t, filepath.Join(f.dir, "coppice.toml"), "[project]\nname = \"t\"\n"+agentTOML("db", "exec sleep 1000"))
	eventually(t, "the file alone", func() bool {
		nodes, err := status.List.Call(t.Context(), c, status.ListRequest{})
		return err == nil && !slices.ContainsFunc(nodes, func(n status.Node) bool { return strings.HasPrefix(n.Path, "t/S") }) &&
			slices.ContainsFunc(nodes, func(n status.Node) bool { return n.Path == "t/db" && n.State == "running" })
	})
}

// The program of a grove.toml is a whole fleet. Its beliefs are in the same place under run and up.
func TestGroveInDaemon(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "grove.toml"), "[project]\nname = \"p\"\nentry = \"main.sg\"\n[persistence]\npath = \"kept.db\"\n[supervision]\nmax_restarts = 2\n")
	write(t, filepath.Join(dir, "main.sg"), `
agent Counter { @persistent n: Int on start { self.n += 1; print("count {self.n}"); } on message(m: Int) { } on resting { print("resting {self.n}"); } }
agent Fails { on start { sleep_ms(1); fail "again"; } on error(e) { } }
supervisor Bad { strategy: OneForOne children { Fails { restart: Temporary } } }
supervisor Root { strategy: OneForOne children { Counter { restart: Permanent } Bad { restart: Temporary } } }
run Root;
`)
	f := fleetOf(t, dir)
	r := launch(t, dir, "run")
	r.out.awaitText(t, "count 1\n")
	f.wantFailure(exitFailure, []string{"up"}, "the store is in use", "coppice run")
	r.signal(syscall.SIGTERM)
	r.exit()

	f.up()
	c := f.client()
	f.awaitSaid(c, "Root/Counter", "count 2")
	if got := f.do("ps"); !strings.Contains(got, "Root/Counter") {
		t.Errorf("ps:\n%s", got)
	}
	if got := f.do("status"); !strings.Contains(got, "Root") {
		t.Errorf("status:\n%s", got)
	}
	if n := f.node("Root"); n.LimitMax != 2 {
		t.Errorf("limit %+v", n)
	}
	f.do("down")

	r = launch(t, dir, "run")
	r.out.awaitText(t, "count 3\n")
	r.signal(syscall.SIGTERM)
	r.exit()
	if got := r.out.String(); !strings.HasSuffix(got, "resting 3\n") {
		t.Errorf("%q", got)
	}
}

// Errors of the program are reported before anything runs.
func TestSageInDaemonRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		toml, program string
		says          []string
	}{
		"error":    {"", "agent A { on start { print(1 + true); } }\nrun A;", []string{"p.sg:1:", "p.sg is not valid"}},
		"no run":   {"", "agent A { }", []string{"runs nothing"}},
		"twice":    {"[[supervisor]]\nname = \"s\"\nchildren = [\"db\"]\n", "supervisor R { strategy: OneForOne children { \"db\" { } } }\nrun R;", []string{`"db" is a child of both the supervisor "s" and the program`}},
		"one name": {"", "agent db { on start { } }\nsupervisor R { strategy: OneForOne children { db { } } }\nrun R;", []string{`"db" is both in the file and in the program`}},
		"unknown":  {"", "supervisor R { strategy: OneForOne children { \"bd\" { } } }\nrun R;", []string{"p.sg:1:47", "its agents are db"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "program = \"p.sg\"\n", agentTOML("db", "exec sleep 1000"), c.toml)
			write(t, filepath.Join(f.dir, "p.sg"), c.program)
			f.wantFailure(exitConfig, []string{"validate"}, c.says...)
			for _, command := range [][]string{{"up"}, {"up", "-d"}, {"run"}} {
				out, err := f.try(command...)
				if err == nil {
					t.Errorf("%v succeeds", command)
				}
				for _, text := range c.says {
					if !strings.Contains(out, text) {
						t.Errorf("%v does not say %q:\n%s", command, text, out)
					}
				}
			}
		})
	}
	f := newFleet(t, "program = \"none.sg\"\n", agentTOML("db", "exec sleep 1000"))
	f.wantFailure(exitConfig, []string{"validate"}, "coppice.toml:4:11: ", "none.sg", "coppice sage new")
}

// A run of a fleet with a program ends when both have, and shows the output of its agents.
func TestSageInRun(t *testing.T) {
	t.Parallel()
	dir := project(t, "program = \"p.sg\"\n", agentTOML("job", "echo from the job", `restart = "never"`))
	write(t, filepath.Join(dir, "p.sg"), `
agent A { on start { print("from the program"); } on resting { print("resting"); } }
supervisor S { strategy: OneForOne children { A { restart: Transient } } }
run S;
`)
	trace := filepath.Join(dir, "trace")
	r := launch(t, dir, "run", "--trace-file", trace)
	r.wantExit(exitOK)
	for _, text := range []string{"t/S/A | from the program\n", "t/S/A | resting\n", "t/job | from the job\n"} {
		if !strings.Contains(r.out.String(), text) {
			t.Errorf("no %q in\n%s", text, r.out)
		}
	}
	text, err := os.ReadFile(trace)
	got := string(text)
	for _, event := range []string{
		`"agent":"t/S"`, `"kind":"supervisor.start"`, `"agent":"t/S/A"`, `"kind":"agent.start"`,
	} {
		if err != nil || !strings.Contains(got, event) {
			t.Errorf("no %s in the trace:\n%s", event, got)
		}
	}
}

// In a daemon too, a program starts in order: each on waking ends before the next child starts.
func TestSageOrderInDaemon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "program = \"order.sg\"\n\n", agentTOML("other", "exec sleep 1000"))
	write(t, filepath.Join(f.dir, "order.sg"), `
fn note(line: String) { let r = append_file("order", line ++ " ") catch { }; }
agent A { on start { note("A"); receive_nothing(); } }
agent B { @persistent n: Int on waking { note("wake-B"); sleep_ms(50); note("awake-B"); } on start { note("B"); receive_nothing(); } }
agent C { on start { note("C"); receive_nothing(); } }
fn receive_nothing() { loop { sleep_ms(1000); } }
supervisor Inner { strategy: OneForAll children { B { } C { } } }
supervisor Order { strategy: OneForOne children { A { restart: Temporary } B { } Inner { } C { } } }
run Order;
`)
	f.do("up", "-d")
	const want = "A wake-B awake-B B wake-B awake-B B C C "
	var got []byte
	eventually(t, "all children running", func() bool {
		got, _ = os.ReadFile(filepath.Join(f.dir, "order"))
		return len(got) >= len(want)
	})
	if string(got) != want {
		t.Errorf("started as %q, want %q", got, want)
	}
}

// Children of a program supervisor stop in reverse order, as in OTP: by hand and with the daemon.
func TestSageChildrenStopInReverseOrder(t *testing.T) {
	t.Parallel()
	polite := func(name string) string {
		return agentTOML(name, fmt.Sprintf("trap 'echo %[1]s asked >> order; sleep 0.2; echo %[1]s ended >> order; exit 0' TERM; echo set; sleep 1000 & wait", name),
			`ready = { log = "set" }`)
	}
	f := newFleet(t, "program = \"guard.sg\"\n\n", polite("one"), polite("two"), polite("deep"))
	f.replaceFile("guard.sg", `
agent Middle { on message(m: Int) { } on resting { print("resting"); } }
supervisor Inner { strategy: OneForAll children { "deep" { restart: Permanent } } }
supervisor Guard {
    strategy: OneForOne
    children {
        "one" { restart: Permanent }
        Middle as middle { restart: Permanent }
        Inner { restart: Permanent }
        "two" { restart: Permanent }
    }
}
run Guard;
`)
	f.do("up", "-d")
	want := "two asked\ntwo ended\ndeep asked\ndeep ended\none asked\none ended\n"
	ordered := func(how string) {
		t.Helper()
		if got := f.awaitFile("order"); got != want {
			t.Errorf("%s: stopped in the order\n%s", how, got)
		}
		if err := os.Remove(filepath.Join(f.dir, "order")); err != nil {
			t.Fatal(err)
		}
	}
	f.do("stop", "Guard")
	ordered("by hand")
	var stops []string
	for _, e := range f.eventsOf("--type", "agent.stopp*") {
		stops = append(stops, strings.TrimPrefix(string(e.Type), "agent.")+" "+e.Path)
	}
	var once []string
	for _, path := range []string{"t/Guard/two", "t/Guard/Inner/deep", "t/Guard/middle", "t/Guard/one"} {
		once = append(once, "stopping "+path, "stopped "+path)
	}
	if !slices.Equal(stops, once) {
		t.Errorf("the log says: %q", stops)
	}
	f.do("start", "Guard")
	f.do("down")
	ordered("with the daemon")
}
