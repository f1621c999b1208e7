package fakeagent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// processes returns the processes that were started in this run, by their environment.
func (f *fake) processes() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), f.dir+"\"") {
			pid := 0
			for _, r := range strings.Split(file, "/")[2] {
				pid = pid*10 + int(r-'0')
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitOrphan waits for the process that a call has left behind, and ends it.
func (f *fake) awaitOrphan(cli agentcli.CLI) {
	f.t.Helper()
	pids := f.processes()
	if len(pids) != 1 {
		f.t.Fatalf("%s has left %v behind", cli, pids)
	}
	if session, err := unix.Getsid(pids[0]); err != nil || session != pids[0] {
		f.t.Errorf("process %d is in session %d %v", pids[0], session, err)
	}
	if left := f.set.Left(); !slices.Equal(left, pids) {
		f.t.Errorf("%v are recorded, %v is left", left, pids)
	}
	syscall.Kill(pids[0], syscall.SIGKILL)
}

// Signals end a call as was measured.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cli     agentcli.CLI
		sig     syscall.Signal
		group   bool
		code    int
		signal  syscall.Signal
		goes_on bool // something of it lives on
	}{
		{agentcli.Claude, syscall.SIGTERM, false, 143, 0, false},
		{agentcli.Claude, syscall.SIGTERM, true, 143, 0, false},
		{agentcli.Claude, syscall.SIGINT, true, 0, 0, false},
		{agentcli.Claude, syscall.SIGHUP, true, 0, 0, true},
		{agentcli.Codex, syscall.SIGTERM, true, 0, syscall.SIGTERM, false},
		{agentcli.Codex, syscall.SIGINT, true, 1, 0, false},
		{agentcli.Codex, syscall.SIGHUP, true, 0, 0, true},
		{agentcli.Gemini, syscall.SIGTERM, true, 0, 0, false},
		{agentcli.Gemini, syscall.SIGINT, true, 0, 0, false},
		{agentcli.Gemini, syscall.SIGTERM, false, 0, 0, true},
		{agentcli.Opencode, syscall.SIGTERM, true, 0, syscall.SIGTERM, false},
		{agentcli.Opencode, syscall.SIGTERM, false, 0, syscall.SIGTERM, false},
		{agentcli.Opencode, syscall.SIGINT, true, 0, syscall.SIGINT, false},
		{agentcli.Opencode, syscall.SIGINT, false, 0, 0, true},
		{agentcli.Copilot, syscall.SIGTERM, true, 0, syscall.SIGTERM, false},
		{agentcli.Copilot, syscall.SIGTERM, false, 0, 0, true},
	} {
		to := map[bool]string{true: "group", false: "pid"}[c.group]
		t.Run(string(c.cli)+" "+c.sig.String()+" to the "+to, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "loop,pace=200ms")
			cmd := f.command(c.cli, jsonCall(c.cli)...)
			var again time.Time
			seen := 0
			e := f.await(c.cli, cmd, func(out string) bool {
				switch lines := strings.Count(out, "\n"); {
				case lines < 4:
				case again.IsZero():
					pid := cmd.Process.Pid
					if c.group {
						pid = -pid
					}
					syscall.Kill(pid, c.sig)
					again, seen = time.Now(), lines
				case c.goes_on && lines > seen+8: // written after the signal
					syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
					return true
				}
				return false
			})
			if c.goes_on {
				if e.signal != syscall.SIGKILL && c.cli != agentcli.Copilot {
					t.Fatalf("it has ended: code %d, signal %v", e.Code, e.signal)
				}
				return
			}
			if e.Code != c.code || e.signal != c.signal {
				t.Errorf("code %d, signal %v, expected %d, %v\n%s", e.Code, e.signal, c.code, c.signal, e.err)
			}
			if ended := c.cli == agentcli.Claude && c.sig == syscall.SIGINT; e.Output.Ended != ended {
				t.Errorf("a result: %v, expected %v", e.Output.Ended, ended)
			}
			if c.cli == agentcli.Claude && c.sig == syscall.SIGINT {
				if v := agentcli.Classify(e.End); v.Reason != "it was interrupted" {
					t.Errorf("%+v", v)
				}
			}
			if left := f.processes(); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

// A session goes on: claude and codex count all of it, and one that does not exist is an error as recorded.
func TestResume(t *testing.T) {
	t.Parallel()
	for _, cli := range headless() {
		t.Run(string(cli), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "ok")
			first := f.call(cli, jsonCall(cli)...)
			id := first.Output.Session
			if id == "" {
				t.Fatalf("no session: %s%s", first.out, first.err)
			}
			resume := func(id string) []string {
				args := jsonCall(cli)
				switch cli {
				case agentcli.Claude:
					return append([]string{"--resume", id}, args...)
				case agentcli.Codex:
					return []string{"exec", "resume", "--json", id, "-"}
				case agentcli.Gemini:
					return append(args, "--resume", id)
				case agentcli.Opencode:
					return append(args, "--session", id)
				}
				return append(args, "--resume="+id)
			}
			second := f.call(cli, resume(id)...)
			if second.Output.Session != id || second.Exit != "" {
				t.Fatalf("session %q after %q, %s\n%s", second.Output.Session, id, second.Exit, second.err)
			}
			if cumulative := cli == agentcli.Codex; second.Output.Cumulative != cumulative {
				t.Errorf("cumulative: %v", second.Output.Cumulative)
			} else if cumulative && second.Output.Tokens() != 2*MessageTokens ||
				!cumulative && cli != agentcli.Copilot && second.Output.Tokens() != MessageTokens {
				t.Errorf("%d tokens", second.Output.Tokens())
			}
			if cli == agentcli.Claude &&
				!strings.Contains(second.out, `"modelUsage":{"claude-opus-5-5":{"cacheCreationInputTokens":206`) {
				t.Errorf("modelUsage is not of all runs: %s", second.out)
			}
			if second.Session.Known && second.Session.Tokens() != 2*MessageTokens {
				t.Errorf("%d tokens in the file of the session", second.Session.Tokens())
			}
			lost := f.call(cli, resume("00000000-0000-4000-8000-000000000000")...)
			code := map[bool]int{true: 42, false: 1}[cli == agentcli.Gemini]
			if v := agentcli.Classify(lost.End); v.Obstacle != "session_lost" || lost.Code != code {
				t.Errorf("%+v, exit code %d\n%s", v, lost.Code, lost.err)
			}
			hostile := f.call(cli, resume("../../../../x")...)
			if hostile.Code != code {
				t.Errorf("a hostile id: exit code %d\n%s", hostile.Code, hostile.err)
			}
		})
	}
}

// Without JSON, a call prints its answer as text, and its failure where the command line has it.
func TestText(t *testing.T) {
	t.Parallel()
	for _, cli := range headless() {
		args := map[agentcli.CLI][]string{
			agentcli.Claude: {"-p", "hello"}, agentcli.Codex: {"exec", "hello"}, agentcli.Gemini: {"-p", "hello"},
			agentcli.Opencode: {"run", "hello"}, agentcli.Copilot: {"-p", "hello"},
		}[cli]
		f := newFake(t, "ok")
		if e := f.call(cli, args...); e.out != "This was a fake of "+string(cli)+": nothing was done.\n" ||
			e.Exit != "" {
			t.Errorf("%s: %q, %s, %s", cli, e.out, e.err, e.Exit)
		}
		f = newFake(t, "money")
		e := f.call(cli, args...)
		if e.Exit == "" || e.out+e.err == "" || strings.Contains(e.out, "{") {
			t.Errorf("%s: %q, %s, %s", cli, e.out, e.err, e.Exit)
		}
	}
	f := newFake(t, "ok")
	for _, c := range []struct {
		cli  agentcli.CLI
		args []string
	}{{agentcli.Claude, []string{"-p", "--output-format=json", "x"}}, {agentcli.Gemini, []string{"-o", "json", "-p",
		"x"}}} {
		if r := f.call(c.cli, c.args...).Output; !r.Ended || r.Failed || r.Tokens() != MessageTokens ||
			!strings.HasPrefix(r.Text, "This was a fake") {
			t.Errorf("%s: %+v", c.cli, r)
		}
	}
	if e := f.call(agentcli.Claude, "-p", "Write <aide-summary>…</aide-summary>"); !strings.Contains(
		e.out,
		"<aide-summary>A fake",
	) {
		t.Error(e.out)
	}
}

// version returns the version that a fake says it is.
func version(cli agentcli.CLI) string {
	all := agentcli.Measured(cli)
	return all[len(all)-1]
}

// Arguments that the real command line does not accept fail as there; what a fake does not play is said.
func TestArguments(t *testing.T) {
	t.Parallel()
	f := newFake(t, "ok")
	for _, c := range []struct {
		cli      agentcli.CLI
		args     string
		code     int
		expected string
	}{
		{agentcli.Claude, "--version", 0, version(agentcli.Claude) + " (Claude Code)"},
		{agentcli.Codex, "--version", 0, "codex-cli " + version(agentcli.Codex)},
		{agentcli.Gemini, "--version", 0, version(agentcli.Gemini)},
		{agentcli.Opencode, "--version", 0, version(agentcli.Opencode)},
		{agentcli.Copilot, "--version", 0, version(agentcli.Copilot)},
		{agentcli.Claude, "-v", 0, version(agentcli.Claude)}, {agentcli.Codex, "-V", 0, version(agentcli.Codex)},
		{agentcli.Claude, "--help", 0, "This is a fake of claude " + version(agentcli.Claude)},
		{agentcli.Claude, "mcp add x", 0, "mcp does nothing in a fake"}, {agentcli.Codex, "login", 0,
			"login does nothing"},
		{agentcli.Claude, "hello", 1, "only calls without a terminal are played, such as: claude -p PROMPT"},
		{agentcli.Codex, "hello", 1, "codex exec"},
		{agentcli.Claude, "-p --output-format stream-json x", 1, "requires --verbose"},
		{agentcli.Claude, "-p --output-format xml x", 1, `option --output-format has the value "xml"`},
		{agentcli.Claude, "-p --model", 1, "option --model needs a value"},
		{agentcli.Claude, "-p --unknown --more=5 --dangerously-skip-permissions x", 0, "This was a fake"},
		{agentcli.Codex, "exec --full-auto -m o3 -s workspace-write -C . -o last.txt x", 0, "This was a fake"},
		{agentcli.Opencode, "run -m a/b --agent build x", 0, "This was a fake"},
		{agentcli.Copilot, "--allow-tool shell -p x", 0, "This was a fake"},
		{agentcli.Gemini, "-y -m gemini-3 x", 0, "This was a fake"},
	} {
		e := f.call(c.cli, strings.Fields(c.args)...)
		if e.Code != c.code || !strings.Contains(e.out+e.err, c.expected) {
			t.Errorf("%s %s: %d %s%s, expected %d %q", c.cli, c.args, e.Code, e.out, e.err, c.code, c.expected)
		}
	}
	// An option with any number of values takes the prompt, too.
	cmd := f.command(agentcli.Claude, "-p", "--allowedTools", "Bash", "do it")
	cmd.Stdin = nil
	if e := f.await(agentcli.Claude, cmd, nil); e.Code != 1 || !strings.Contains(e.err, "Input must be provided") {
		t.Errorf("%d %s", e.Code, e.err)
	}
	for env, expected := range map[string]string{
		"": "COPPICE_FAKE is not set", "x": "not what coppice run --fake sets", `{"plan":"nope"}`: "unknown scenario",
		`{"plan":"ok","dir":"/"}`: "the start of the run is missing",
		`{"plan":"ok","start":"2026-11-23T01:00:00Z","dir":"/does/not/exist"}`: "no such file",
	} {
		f.env = []string{EnvName + "=" + env}
		if e := f.call(agentcli.Claude, "-p", "x"); e.Code != 1 || !strings.Contains(e.err, expected) {
			t.Errorf("%s: %d %s, expected %q", env, e.Code, e.err, expected)
		}
	}
	f = newFake(t, "liar")
	if e := f.call(agentcli.Codex, "exec", "x"); e.Code != 1 ||
		!strings.Contains(e.err, `codex has no scenario "liar"; it has ok, tool, quota, rate,`) {
		t.Errorf("%d %s", e.Code, e.err)
	}
}

// Nothing is written outside of the directory of the run, also where the environment or a link says so.
func TestHomes(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for _, cli := range headless() {
		f := newFake(t, "ok")
		if err := os.Symlink(outside, filepath.Join(f.dir, "link")); err != nil {
			t.Fatal(err)
		}
		for _, home := range []string{outside, filepath.Join(f.dir, "link"), filepath.Join(outside, "new")} {
			f.env = []string{"HOME=" + home, "CLAUDE_CONFIG_DIR=" + home, "CODEX_HOME=" + home}
			if e := f.call(cli, jsonCall(cli)...); e.Exit != "" {
				t.Errorf("%s: %s %s", cli, e.Exit, e.err)
			}
		}
		if cli != agentcli.Opencode {
			if all, _ := filepath.Glob(filepath.Join(f.dir, "elsewhere", "*")); len(all) != 3 {
				t.Errorf("%s: %v", cli, all)
			}
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	f := newFake(t, "ok")
	own := filepath.Join(f.dir, "accounts", "second")
	f.env = []string{"CLAUDE_CONFIG_DIR=" + own}
	f.call(agentcli.Claude, jsonCall(agentcli.Claude)...)
	if all, _ := filepath.Glob(filepath.Join(own, "projects", "*", "*.jsonl")); len(all) != 1 {
		t.Errorf("CLAUDE_CONFIG_DIR has %v", all)
	}
}

// The calls of an agent are numbered also where several are made at once, and share the account.
func TestCalls(t *testing.T) {
	t.Parallel()
	f := newFake(t, "night/b:crash,quota+1h,pace=0s")
	f.env = []string{"COPPICE_AGENT=night/a"}
	const calls = 8
	codes := make(chan int, calls)
	for range calls {
		cmd := f.command(agentcli.Claude, "-p", "x")
		go func() {
			cmd.Run()
			codes <- cmd.ProcessState.ExitCode()
		}()
	}
	for range calls {
		if code := <-codes; code != 1 {
			t.Errorf("exit code %d", code)
		}
	}
	f.env = []string{"COPPICE_AGENT=night/b"}
	f.call(agentcli.Claude, "-p", "x")
	all, err := f.set.Calls()
	if err != nil || len(all) != calls+1 {
		t.Fatalf("%+v %v", all, err)
	}
	seen := map[uint64]bool{}
	for _, c := range all[:calls] {
		if seen[c.Number] || c.Number < 1 || c.Number > calls || c.Scenario != Quota || c.Agent != "night/a" {
			t.Errorf("%+v", c)
		}
		seen[c.Number] = true
	}
	if last := all[calls]; last.Number != 1 || last.Scenario != Crash {
		t.Errorf("%+v", last)
	}
}
