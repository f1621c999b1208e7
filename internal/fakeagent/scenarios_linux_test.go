package fakeagent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// TestMain makes the test binary a fake when it is called as one.
func TestMain(m *testing.M) {
	if cli, ok := Called(os.Args[0]); ok {
		os.Exit(Main(cli, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// jsonCall returns the arguments with which a command line reports in JSON.
func jsonCall(cli agentcli.CLI) []string {
	switch cli {
	case agentcli.Claude:
		return []string{"-p", "--output-format", "stream-json", "--verbose", "--", "What is the answer?"}
	case agentcli.Codex:
		return []string{"exec", "--json", "--skip-git-repo-check", "-c", "model=\"gpt-5\"", "-"}
	case agentcli.Gemini:
		return []string{"--output-format", "stream-json", "--approval-mode", "yolo"}
	case agentcli.Opencode:
		return []string{"run", "--format", "json"}
	}
	return []string{"--output-format", "json", "--allow-all-tools"}
}

// fake is a run in which fakes are called.
type fake struct {
	t   *testing.T
	dir string // of the run
	set Setting
	env []string // in addition
	// begun is called when a call has been started, unless nil.
	begun func()
}

func newFake(t *testing.T, plan string) *fake {
	t.Helper()
	p, err := Parse(plan)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan, "pace=") {
		p.Pace = 20 * time.Millisecond
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return &fake{t: t, dir: dir, set: Setting{Plan: p, Start: time.Now(), Dir: dir}}
}

// command returns a call of a fake.
func (f *fake) command(cli agentcli.CLI, args ...string) *exec.Cmd {
	f.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Args[0], cmd.Dir = Program(cli), filepath.Join(f.dir, "work")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(f.dir, "home"), "TZ=UTC",
		EnvName + "=" + f.set.Env(), "GORACE=atexit_sleep_ms=0"}, f.env...)
	cmd.Stdin = strings.NewReader("What is the answer?")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Minute
	return cmd
}

// ended is a call that has ended.
type ended struct {
	agentcli.End
	out, err string
	signal   syscall.Signal
}

// killOnceRecorded returns a function that kills a call when it is in the record of the run.
func (f *fake) killOnceRecorded(cmd *exec.Cmd) func() {
	f.t.Helper()
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(f.dir)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return func() {
		defer w.Close()
		for e := range w.Events {
			if filepath.Base(e.Name) == callsName && e.Has(fsnotify.Write) {
				break
			}
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// call makes a call and waits for its end.
func (f *fake) call(cli agentcli.CLI, args ...string) ended {
	f.t.Helper()
	return f.await(cli, f.command(cli, args...), nil)
}

// await runs a call, and calls act when it has reported something.
func (f *fake) await(cli agentcli.CLI, cmd *exec.Cmd, act func(out string) bool) ended {
	f.t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	if f.begun != nil {
		f.begun()
	}
	var out bytes.Buffer
	buf := make([]byte, 1<<16)
	acted := act == nil
	for {
		n, err := pipe.Read(buf)
		out.Write(buf[:n])
		acted = acted || act(out.String())
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	if _, is := errors.AsType[*exec.ExitError](err); err != nil && !is {
		f.t.Fatal(err)
	}
	e := ended{out: out.String(), err: errs.String()}
	e.CLI, e.Now, e.Local = cli, time.Now(), time.UTC
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		e.signal = status.Signal()
		e.Exit = "killed by " + e.signal.String()
	case status.ExitStatus() != 0:
		e.Code = status.ExitStatus()
		e.Exit = fmt.Sprintf("exit code %d", e.Code)
	}
	e.Output = agentcli.Read(cli, out.Bytes())
	e.Stderr = f.read(cli, agentcli.FromStderr, errs.Bytes())
	if file := f.session(cli); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			f.t.Fatal(err)
		}
		e.Session = f.read(cli, agentcli.FromSession, text)
	}
	return e
}

func (f *fake) read(cli agentcli.CLI, from agentcli.Source, text []byte) agentcli.Report {
	s := agentcli.Stream{CLI: cli, Source: from}
	s.Write(text)
	s.Close()
	return s.Report()
}

// session returns the file of the newest session.
func (f *fake) session(cli agentcli.CLI) string {
	pattern := map[agentcli.CLI]string{
		agentcli.Claude: ".claude/projects/*/*.jsonl", agentcli.Codex: ".codex/sessions/*/*/*/rollout-*.jsonl",
		agentcli.Gemini:  ".gemini/tmp/work/chats/session-*.jsonl",
		agentcli.Copilot: ".copilot/session-state/*/events.jsonl",
	}[cli]
	if pattern == "" {
		return ""
	}
	return newestMatch(filepath.Join(f.dir, "home", pattern))
}

// obstacles are what the scenarios are classified as; empty for a success.
var obstacles = map[Scenario]outcome.ObstacleKind{
	OK: "", Tool: "", Commit: "", Rate: "", Split: "", Orphan: "", Unusable: "", Wide: "", Block: "",
	Quota: outcome.UsageLimit, UsedUp: outcome.UsageLimit, QuotaNoReset: outcome.UsageLimit,
	Auth: outcome.Authentication, Money: outcome.Billing,
	Context: outcome.ContextFull, Overloaded: outcome.Overloaded, Refused: outcome.Refused, Crash: outcome.Crash,
	Hang: outcome.Crash, Silent: outcome.Crash, Loop: outcome.Crash, // that is, if they are killed
}

// lies are what the lying successes are classified as.
var lies = map[agentcli.CLI]outcome.ObstacleKind{
	agentcli.Claude: outcome.PermissionDenied, agentcli.Gemini: outcome.Loop,
	agentcli.Opencode: outcome.ModelLimitation,
	agentcli.Copilot:  outcome.ModelLimitation,
}

// codes are the exit codes of failures; 1 if none is named.
var codes = map[string]int{
	"gemini quota": 173, "gemini quota-no-reset": 173, "gemini auth": 144, "gemini money": 147, "gemini context": 144,
	"gemini overloaded": 247, "copilot refused": 0, "claude liar": 0, "gemini liar": 0, "opencode liar": 0,
	"copilot liar": 0,
}

// Each scenario of each command line is classified as what it plays, with its exit code, its reset and its tokens.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, info := range Scenarios() {
		for _, cli := range info.CLIs {
			if cli == agentcli.ACP { // see TestACP
				continue
			}
			name := fmt.Sprintf("%s %s", cli, info.Scenario)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newFake(t, string(info.Scenario)+"+2h")
				cmd := f.command(cli, jsonCall(cli)...)
				var act func(string) bool
				endless := info.Scenario == Hang || info.Scenario == Silent || info.Scenario == Loop
				if endless {
					act = func(out string) bool {
						r := agentcli.Read(cli, []byte(out))
						enough := r.Ended
						switch info.Scenario {
						case Silent:
							enough = out != "" || f.session(cli) != "" || cli == agentcli.Opencode
						case Loop:
							enough = r.Succeeded >= 3 || strings.Count(out, "run_shell_command__") >= 8
						}
						if enough {
							syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
						}
						return enough
					}
				}
				if cli == agentcli.Opencode && info.Scenario == Silent { // it reports nothing at all
					f.begun = f.killOnceRecorded(cmd)
				}
				e := f.await(cli, cmd, act)
				if endless && info.Scenario == Hang {
					e.Stopped = agentcli.AfterItsEnd
				}
				expected := obstacles[info.Scenario]
				switch info.Scenario {
				case Liar:
					expected = lies[cli]
				case Hang:
					expected = ""
				}
				v := agentcli.Classify(e.End)
				if v.Obstacle != expected || (v.Kind == outcome.Completed) != (expected == "") {
					t.Errorf(
						"%s %s: %s (%s), expected %q\n%s%s",
						v.Kind,
						v.Obstacle,
						v.Reason,
						v.Rule,
						expected,
						tail(e.out),
						tail(e.err),
					)
				}
				code, ok := codes[name]
				if !ok && expected != "" {
					code = 1
				}
				if e.Code != code && !endless || endless && e.signal != syscall.SIGKILL {
					t.Errorf("exit code %d, signal %v, expected %d\n%s", e.Code, e.signal, code, e.err)
				}
				checkTokens(t, cli, info.Scenario, e)
				checkReset(t, f, cli, info.Scenario, v)
				if info.Scenario == Rate && cli != agentcli.Opencode && max(e.Output.Retried, e.Stderr.Retried) != 1 {
					t.Errorf("%d repeated calls of the model", max(e.Output.Retried, e.Stderr.Retried))
				}
				if info.Scenario == Split && !strings.Contains(e.out, strings.Repeat("0123456789abcdef", hugeLine/16)) {
					t.Errorf("no line of a megabyte in %d bytes", len(e.out))
				}
				if n := len(e.Output.Unknown); n > 0 {
					t.Errorf("%d kinds of objects are unknown: %v", n, e.Output.Unknown)
				}
				if calls, err := f.set.Calls(); err != nil || len(calls) != 1 || calls[0].Scenario != info.Scenario ||
					calls[0].CLI != cli {
					t.Errorf("the record has %+v %v", calls, err)
				}
				if info.Scenario == Orphan {
					f.awaitOrphan(cli)
				}
			})
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// checkTokens compares the tokens in the stream with those in the file of the session.
func checkTokens(t *testing.T, cli agentcli.CLI, s Scenario, e ended) {
	t.Helper()
	messages := map[Scenario]int64{
		OK: 1, Tool: 2, Commit: 2, Rate: 1, Split: 2, Orphan: 2, Hang: 1, Crash: 1, Refused: 1,
		Unusable: 1, Wide: 1, Block: 1,
	}
	used, _ := e.Usage()
	switch expected, known := messages[s]; {
	case cli == agentcli.Opencode && s == Crash, cli == agentcli.Codex && s == Refused:
	case known && used.Tokens() != expected*MessageTokens:
		t.Errorf("%d tokens, expected %d messages of %d", used.Tokens(), expected, MessageTokens)
	case s == Loop && used.Tokens() < 2*MessageTokens:
		t.Errorf("a loop has used %d tokens", used.Tokens())
	}
	if e.Output.Known && e.Output.Ended && e.Session.Known && e.Output.Tokens() != e.Session.Tokens() {
		t.Errorf("%d tokens in the stream, %d in the file of the session", e.Output.Tokens(), e.Session.Tokens())
	}
	if cli != agentcli.Opencode && e.Session.Session == "" {
		t.Errorf("the file of the session has no id: %+v", e.Session)
	}
	if cli != agentcli.Copilot && s != Silent && e.Output.Session == "" ||
		e.Output.Session != "" && e.Session.Session != "" &&
			e.Output.Session != e.Session.Session {
		t.Errorf("session %q in the stream, %q in its file", e.Output.Session, e.Session.Session)
	}
}

func checkReset(t *testing.T, f *fake, cli agentcli.CLI, s Scenario, v agentcli.Verdict) {
	t.Helper()
	if s != Quota && s != UsedUp || cli == agentcli.Gemini {
		if !v.Reset.IsZero() {
			t.Errorf("a reset: %v", v.Reset)
		}
		return
	}
	if expected := f.set.Start.Add(2*time.Hour + time.Second - 1).Truncate(time.Second); !v.Reset.Equal(expected) {
		t.Errorf("it resets at %v (%s), expected %v", v.Reset, v.ResetFrom, expected)
	}
}
