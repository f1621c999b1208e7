package test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakeagent"
)

// fakeRun is a directory with a project, with programs that must never run, and with a home that must not change.
type fakeRun struct {
	*fleet
	real, home string
}

func newFakeRun(t *testing.T, toml ...string) fakeRun {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := fakeRun{real: filepath.Join(dir, "real"), home: filepath.Join(dir, "home")}
	work := filepath.Join(dir, "work")
	for _, d := range []string{r.real, work, filepath.Join(r.home, ".claude"), filepath.Join(r.home, ".local", "bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"claude", "codex", "gemini", "opencode", "copilot", "npx"} {
		exectest.Write(t, filepath.Join(r.real, name), fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >>%s/called\n", dir))
	}
	exectest.Write(
		t,
		filepath.Join(r.home, ".local", "bin", "claude"),
		fmt.Sprintf("#!/bin/sh\necho home >>%s/called\n", dir),
	)
	write(t, filepath.Join(r.home, ".gitconfig"), "[user]\n\tname = tester\n")
	write(t, filepath.Join(r.home, ".claude", ".credentials.json"), "secret")
	r.fleet = fleetIn(t, work, toml...)
	r.env = []string{"HOME=" + r.home, "PATH=" + os.Getenv("PATH") + ":" + r.real}
	return r
}

// run runs the project with fakes, in a directory for temporary files of its own.
func (r fakeRun) run(args ...string) *childProcess {
	r.t.Helper()
	c := newCoppice(r.t, append([]string{"run"}, args...)...)
	c.Env = append(os.Environ(), r.env...)
	c.start(r.dir)
	return c
}

// untouched checks that no real program was called, and that the home is as before.
func (r fakeRun) untouched(before string) {
	r.t.Helper()
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(r.dir), "called")); err == nil {
		r.t.Errorf("these were called:\n%s", text)
	}
	if after := listing(r.t, r.home); after != before {
		r.t.Errorf("the home has changed:\n%s\nbefore:\n%s", after, before)
	}
}

// listing returns the files of a directory with their content.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %x\n", path, text)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all.String()
}

// However an agent calls a command line, it gets the fake.
func TestFakeReplaces(t *testing.T) {
	t.Parallel()
	r := newFakeRun(t)
	command := func(name, command string, more ...string) string {
		return fmt.Sprintf(
			"[[agent]]\nname = %q\ncommand = %s\nrestart = \"never\"\n%s\n",
			name,
			command,
			strings.Join(more, "\n"),
		)
	}
	path := "env = { PATH = \"" + r.real + ":" + os.Getenv("PATH") + "\" }"
	write(t, filepath.Join(r.dir, "more.env"), "PATH="+r.real+":"+os.Getenv("PATH")+"\nANTHROPIC_API_KEY=very-secret\n")
	write(t, filepath.Join(r.dir, "coppice.toml"), "[project]\nname = \"t\"\n"+strings.Join([]string{
		command("direct", `["claude", "-p", "hello"]`),
		command("absolute", fmt.Sprintf(`["%s/codex", "exec", "hello"]`, r.real)),
		command("packaged", `"npx -y @google/gemini-cli -p hello"`),
		command("shell", fmt.Sprintf(`"%s/opencode run 'hello there' | cat"`, r.real)),
		command("path", `"./work.sh"`, path),
		command("file", `"./work.sh"`, `env_file = "more.env"`),
		command("tilde", `"~/.local/bin/claude -p 'hello'"`),
		"[[agent]]\nname = \"aide\"\naidefile = \"aide\"\n",
	}, "\n")+"[aide]\ncommand = [\"claude\", \"-p\", \"--output-format\", \"stream-json\", \"--verbose\"]\n")
	if err := os.Mkdir(filepath.Join(r.dir, "aide"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.dir, "aide", "Aidefile"), "[persona]\nname = \"aide\"\n")
	exectest.Write(
		t,
		filepath.Join(r.dir, "work.sh"),
		"#!/bin/sh\nclaude -p x; copilot -p y; ~/.local/bin/claude -p z; echo \"key ${ANTHROPIC_API_KEY:-none}\"; "+
			"cat ~/.gitconfig; ls ~/.claude 2>&1\n",
	)
	before := listing(t, r.home)
	c := r.run("--fake", "ok,pace=50ms,seed=5")
	c.wantExit(0)
	r.untouched(before)
	for _, want := range []string{
		"t/direct | This was a fake of claude", "t/absolute | This was a fake of codex",
		"t/packaged | This was a fake of gemini",
		"t/shell | This was a fake of opencode", "t/path | This was a fake of claude",
		"t/path | This was a fake of copilot",
		"t/file | This was a fake of claude", "t/tilde | This was a fake of claude", "t/aide | TOKENS: 1165/200000",
		"t/path | key none", "t/file | key fake-", "t/path | \tname = tester",
	} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("no %q in\n%s", want, c.out)
		}
	}
	for _, not := range []string{"very-secret", "credentials"} {
		if strings.Contains(c.out.String(), not) {
			t.Errorf("%q in\n%s", not, c.out)
		}
	}
	if errs := c.err.String(); !strings.Contains(errs, "no model is called; plan ok,pace=50ms, seed 5\n") ||
		!strings.Contains(errs, "fakes: 12 calls: 12 ok; the same again: --fake 'ok,seed=5,pace=50ms'\n") {
		t.Errorf("%s", errs)
	}
}

// The state of the project is as before, and tasks of it are not seen.
func TestFakeState(t *testing.T) {
	t.Parallel()
	r := newFakeRun(
		t,
		"[persistence]\nbackend = \"sqlite\"\npath = \"kept.db\"\n",
		"[[agent]]\nname = \"a\"\ncommand = \"./a.sh\"\nrestart = \"never\"\n",
	)
	exectest.Write(
		t,
		filepath.Join(r.dir, "a.sh"),
		"#!/bin/sh\ncoppice task ls --count; claude -p x; coppice agent belief set done yes\n",
	)
	r.up()
	r.do("task", "add", "real work")
	r.awaitState("t/a", "stopped")
	r.do("down")
	for _, p := range processesIn(t, r.dir) { // the shim, which has files until its end
		p.awaitEnd(t)
	}
	os.Remove(filepath.Join(filepath.Dir(r.dir), "called")) // by the run without fakes
	before, home := listing(t, r.dir), listing(t, r.home)
	c := r.run("--fake", "ok,pace=0s")
	c.wantExit(0)
	r.untouched(home)
	if after := listing(t, r.dir); after != before {
		t.Errorf("the project has changed: %d bytes, %d before", len(after), len(before))
	}
	if out := c.out.String(); !strings.Contains(out, "t/a | 0\n") ||
		!strings.Contains(out, "t/a | This was a fake of claude") {
		t.Error(out)
	}
	r.up()
	if out := r.do("task", "ls", "--count"); out != "1\n" {
		t.Error(out)
	}
}

// A project that has never run has no directory for state afterwards, and no directory of the fakes is left.
func TestFakeLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newFakeRun(
		t,
		agentTOML("a", "exec claude -p x", `restart = "never"`),
		agentTOML("b", "claude -p x; sleep 100", `restart = "never"`),
	)
	temp := t.TempDir()
	r.env = append(r.env, "TMPDIR="+temp)
	c := r.run("--fake", "orphan,pace=0s", "--json")
	c.awaitReport("agent.exited a 1", "")
	out := r.do("ls")
	if !strings.Contains(out, "running") {
		t.Errorf("ls of another terminal: %s", out)
	}
	if out, _ := r.try("up", "-d"); !strings.Contains(out, "already up") {
		t.Errorf("a daemon runs next to the fakes: %s", out)
	}
	c.signal(syscall.SIGINT)
	c.wantExit(exitSignalled + int(syscall.SIGINT))
	for _, dir := range []string{temp, filepath.Join(r.dir, ".coppice")} {
		if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
			t.Errorf("%s has %v", dir, left)
		}
	}
	if left := processesIn(t, r.dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// When the quota is used up, all agents of the account wait for the reset, and none has failed.
func TestFakeQuota(t *testing.T) {
	t.Parallel()
	var agents []string
	for _, name := range []string{"a", "b", "c"} {
		agents = append(
			agents,
			fmt.Sprintf(
				"[[agent]]\nname = %q\ncommand = [\"claude\", \"-p\", \"--output-format\", \"stream-json\", "+
					"\"--verbose\", \"x\"]\nrestart = \"on-failure\"\n",
				name,
			),
		)
	}
	r := newFakeRun(t, agents...)
	c := r.run("--fake", "quota+1h,pace=100ms")
	c.out.awaitText(t, "t * started\n")
	for _, name := range []string{"a", "b", "c"} {
		n := r.awaitState("t/"+name, "waiting")
		if n.Failed || n.Restarts != 0 || n.NextAt == nil || time.Until(*n.NextAt) < 50*time.Minute ||
			!strings.Contains(n.Reason, "You've hit your 5-hour limit") {
			t.Errorf("%+v", n)
		}
	}
	if out := r.do("quota", "ls"); !strings.HasPrefix(out, "claude parked: usage limit") ||
		!strings.Contains(out, "3 agents: t/a, t/b, t/c") {
		t.Error(out)
	}
	c.signal(syscall.SIGTERM)
	c.wantExit(exitSignalled + int(syscall.SIGTERM))
}

// A share of the calls fails, the same ones each time with a seed.
func TestFakeSeed(t *testing.T) {
	t.Parallel()
	r := newFakeRun(
		t,
		agentTOML(
			"a",
			"for i in 1 2 3 4 5 6 7 8 9 10; do claude -p x >/dev/null 2>&1; printf '%s' $?; done; echo",
			`restart = "never"`,
		),
	)
	var first string
	for range 2 {
		c := r.run("--fake", "crash%40,pace=0s,seed=11")
		c.wantExit(0)
		line := regexp.MustCompile(`t/a \| ([01]{10})\n`).FindStringSubmatch(c.out.String())
		if line == nil {
			t.Fatal(c.out)
		}
		if first == "" {
			first = line[1]
		}
		if line[1] != first || !strings.Contains(first, "1") || !strings.Contains(first, "0") {
			t.Errorf("%s, the first time %s", line[1], first)
		}
	}
}

// What cannot be replaced, and plans that are wrong, are errors before anything starts.
func TestFakeRefuses(t *testing.T) {
	t.Parallel()
	r := newFakeRun(
		t,
		"[[agent]]\nname = \"a\"\ncommand = [\"sudo\", \"claude\", \"-p\", \"x\"]\n",
		agentTOML("b", "echo started"),
	)
	exectest.Write(t, filepath.Join(r.real, "sudo"), "#!/bin/sh\n")
	for _, c := range []struct {
		args, expected string
		code           int
	}{
		{"run --fake ok", `agent t/a cannot run with fakes: the command "sudo claude -p x" starts claude by sudo`,
			exitFailure},
		{"run --fake nope", `--fake is invalid: part 1 of the plan, "nope": unknown scenario "nope"`, exitUsage},
		{"run --fake=", "--fake is invalid: the plan is empty", exitUsage},
		{"up --fake ok", "coppice up has no --fake", exitUsage},
	} {
		cmd := newCoppice(t, strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), r.env...)
		cmd.start(r.dir)
		cmd.wantExit(c.code)
		if !strings.Contains(cmd.err.String(), c.expected) || strings.Contains(cmd.out.String(), "started") {
			t.Errorf("%s: %s%s, expected %s", c.args, cmd.out, cmd.err, c.expected)
		}
	}
}

// A Sage program asks the fake, also by the path that its project names.
func TestFakeSage(t *testing.T) {
	t.Parallel()
	r := newFakeRun(t)
	os.Remove(filepath.Join(r.dir, "coppice.toml"))
	write(
		t,
		filepath.Join(r.dir, "grove.toml"),
		fmt.Sprintf(
			"[project]\nname = \"t\"\nentry = \"main.sg\"\n[divine]\ncommand = [\"%s/claude\", \"-p\", "+
				"\"--output-format\", \"json\"]\nformat = \"claude\"\n",
			r.real,
		),
	)
	write(
		t,
		filepath.Join(r.dir, "main.sg"),
		"agent Asker {\n    on start {\n        print(divine(\"What is the answer?\") catch { \"none\" });\n    "+
			"}\n}\nrun Asker;\n",
	)
	before := listing(t, r.home)
	r.env = append(r.env, "SAGE_API_KEY=secret")
	c := r.run("--fake", "ok,pace=0s")
	c.wantExit(0)
	r.untouched(before)
	if !strings.Contains(c.out.String(), "This was a fake of claude: nothing was done.") {
		t.Errorf("%s%s", c.out, c.err)
	}
}

// The demonstration shows all that it promises, and leaves nothing.
func TestDemoChaos(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	c := newCoppice(t, "demo", "chaos")
	c.Env = append(os.Environ(), "TMPDIR="+temp, "PATH=/nowhere", "HOME="+t.TempDir())
	c.start(t.TempDir())
	c.wantExit(0)
	for _, want := range []string{
		`the plan of claude was used up +both writers waited for the reset; none had failed`,
		`flaky crashed again and again +4 starts with growing delays, then it gave up`,
		`reviewer stayed after its result +ended it after 1\ds: a success`,
		`server left a process behind +killed that, too: process \d+`,
		`scout reported success, exit code 0 +did not believe it: loop: Loop detected, stopping execution`,
		`chaos \* quota claude is open again`,
	} {
		if !regexp.MustCompile(want).MatchString(c.out.String()) {
			t.Errorf("no %q in\n%s", want, c.out)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	c = launch(t, temp, "demo")
	c.wantExit(0)
	if !strings.Contains(c.out.String(), "chaos") {
		t.Error(c.out)
	}
}

// The page docs/fake.md: its example runs as shown, and its table is that of the program.
func TestFakeDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "fake.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, i := range fakeagent.Scenarios() {
		line := fmt.Sprintf("| `%s` | %s |", i.Scenario, i.Shows)
		for _, cli := range fakeagent.CLIs() {
			line += map[bool]string{true: " yes |", false: " - |"}[fakeagent.Has(cli, i.Scenario) == nil]
		}
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the page lacks: %s", line)
		}
	}
	if n := strings.Count(page, " yes | yes |"); n < len(fakeagent.Scenarios()) {
		t.Errorf("%d", n)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ").FindAllStringSubmatch(page, -1) {
		if _, err := fakeagent.Parse(m[1]); err != nil {
			t.Error(err)
		}
	}
	for name, page := range pages(t) {
		for _, m := range regexp.MustCompile(`--fake '([^']*)'`).FindAllStringSubmatch(page, -1) {
			if _, err := fakeagent.Parse(m[1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if !strings.Contains(page, strings.SplitN(fakeagent.Grammar, ",", 2)[0]) {
		t.Errorf("the page lacks the grammar %s", fakeagent.Grammar)
	}
	newFakeRun(t).example(page, 2)
}

// The page docs/acp.md: its example runs as shown.
func TestACPDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "acp.md"))
	if err != nil {
		t.Fatal(err)
	}
	newFakeRun(t).example(string(text), 1)
}

// example writes the files of a page, which begin with a comment with their name, and runs the commands of its last
// block.
func (r fakeRun) example(page string, expected int) {
	t := r.t
	t.Helper()
	for _, b := range fenced.FindAllStringSubmatch(page, -1) {
		if name := regexp.MustCompile(`(?m)^# ([a-zA-Z./]+)$`).FindStringSubmatch(b[2]); name != nil {
			file := filepath.Join(r.dir, name[1])
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			exectest.Write(t, file, b[2])
		}
	}
	before := listing(t, r.home)
	example := fenced.FindAllStringSubmatch(page, -1)
	console := example[len(example)-1][2]
	runs := strings.Split(console, "$ coppice run ")[1:]
	if len(runs) != expected {
		t.Fatalf("%d runs: %s", len(runs), console)
	}
	for _, run := range runs {
		args, shown, _ := strings.Cut(run, "\n")
		c := r.run(strings.Fields(args)...)
		c.wantExit(0)
		seed := regexp.MustCompile(`seed[ =]\d+`)
		said := seed.ReplaceAllString(c.err.String()+c.out.String(), "seed N")
		for line := range strings.Lines(shown) {
			if line = seed.ReplaceAllString(line, "seed N"); line != "...\n" && !strings.Contains(said, line) {
				t.Errorf("coppice run %s does not say %q:\n%s", args, line, said)
			}
		}
	}
	r.untouched(before)
}

// The program of a fleet asks the fake, and agents that it places call it.
func TestFakeSageInFleet(t *testing.T) {
	t.Parallel()
	r := newFakeRun(t)
	write(t, filepath.Join(r.dir, "coppice.toml"), "[project]\nname = \"t\"\nprogram = \"sage\"\n")
	if err := os.Mkdir(filepath.Join(r.dir, "sage"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(
		t,
		filepath.Join(r.dir, "sage", "grove.toml"),
		fmt.Sprintf(
			"[project]\nname = \"p\"\nentry = \"main.sg\"\n[divine]\ncommand = [\"%s/claude\", \"-p\"]\n",
			r.real,
		),
	)
	write(
		t,
		filepath.Join(r.dir, "sage", "main.sg"),
		"agent Asker {\n    on start {\n        print(divine(\"What is the answer?\") catch { \"none\" });\n    "+
			"}\n}\nrun Asker;\n",
	)
	before := listing(t, r.home)
	c := r.run("--fake", "ok,pace=0s")
	c.out.awaitText(t, "This was a fake of claude: nothing was done.")
	if err := c.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err) // a run ends by itself when its agents have completed
	}
	c.exit()
	r.untouched(before)
}
