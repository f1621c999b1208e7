package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// harness is an agent with an Aidefile, and a run of it.
type harness struct {
	*Runner
	t    *testing.T
	dir  string // of the Aidefile
	out  bytes.Buffer
	mu   sync.Mutex
	told []string

	result aidefile.Result // of the run
}

// newHarness creates an agent with an Aidefile whose command is a shell script.
func newHarness(t *testing.T, file, script string, env ...string) *harness {
	t.Helper()
	b := &harness{t: t, dir: t.TempDir()}
	b.write("Aidefile", file)
	request := RunRequest{
		Aidefile: filepath.Join(b.dir, "Aidefile"), Trigger: "manual", Task: "do it",
		Settings: aidefile.Settings{Command: []string{"/bin/sh", "-c", script}, Vault: filepath.Join(b.dir, "vault"), Base: time.Millisecond},
	}
	env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+b.dir)
	out := &lockedWriter{w: &b.out}
	b.Runner = New(request, t.TempDir(), env, out, out)
	b.checkInterval = 10 * time.Millisecond
	b.Tell = func(s string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, s)
	}
	return b
}

// lockedWriter is both outputs of a run, which are written concurrently.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (b *harness) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *harness) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *harness) last() string { return b.told[len(b.told)-1] }

// run makes the run, and fails the test unless it ends with the result for the reason.
func (b *harness) run(ctx context.Context, result aidefile.Result, reason string) {
	b.t.Helper()
	if b.result = b.Run(ctx); b.result != result || !strings.Contains(b.last(), reason) {
		b.t.Errorf("%v: %s\nexpected %v: %s\n%s", b.result, b.last(), result, reason, b.out.String())
	}
}

func (b *harness) calls(expected int) {
	b.t.Helper()
	text, _ := os.ReadFile(filepath.Join(b.dir, "calls"))
	if n := strings.Count(string(text), "x"); n != expected {
		b.t.Errorf("%d calls, expected %d", n, expected)
	}
}

func TestResults(t *testing.T) {
	const claude = `printf x >>calls; echo '{"type":"result","is_error":%v,"result":"all well","usage":{"input_tokens":%d,"output_tokens":10}}'; exit %d`
	for _, c := range []struct {
		name, aidefile, script string
		result                 aidefile.Result
		reason                 string
		calls                  int
		tokens                 int64
	}{
		{"success", "", fmt.Sprintf(claude, false, 20, 0), aidefile.Succeeded, "success (30 tokens)", 1, 30},
		{"success without a word of tokens", "", "printf x >>calls; echo hello", aidefile.Succeeded, "success", 1, 0},
		{"failure, tried again", "", "printf x >>calls; exit 3", aidefile.BudgetExhausted, "budget exhausted: all 4 tries have failed; the last: ", 4, 0},
		{"failure, not tried again", "[budget]\nmax_retries = 0\n", "printf x >>calls; exit 3", aidefile.Failed, "exit code 3", 1, 0},
		{"success at the second try", "", "printf x >>calls; test $COPPICE_TRY = 2", aidefile.Succeeded, "", 2, 0},
		{"exit code 0 proves nothing", "[budget]\nmax_retries = 0\n", fmt.Sprintf(claude, true, 20, 0), aidefile.Failed, "it ended with 0, and has failed: all well", 1, 30},
		{"a usage limit ends it", "", claudeSays("usage_limit_reached", "You have hit your limit", 1), aidefile.Deferred, "usage limit: You have hit your limit", 1, 0},
		{"a usage limit with the exit code 0", "", claudeSays("usage_limit_reached", "You have hit your limit", 0), aidefile.Deferred, "it ended with 0, and has failed: usage limit: You have hit your limit", 1, 0},
		{"no login ends it", "", claudeSays("authentication_failed", "Please run /login", 1), aidefile.Deferred, "authentication: Please run /login", 1, 0},
		{"an overloaded server does not", "[budget]\nmax_retries = 1\n", claudeSays("overloaded", "529", 1), aidefile.BudgetExhausted, "all 2 tries have failed; the last: overloaded: 529", 2, 0},
		{"a limit on standard error", "", `printf x >>calls; echo "Error when talking to Gemini API Full report available at: r.json TerminalQuotaError: no more today" >&2; exit 173`, aidefile.Deferred, "usage limit: no more today", 1, 0},
		{"tokens used up", "[budget]\ntokens = \"100\"\n", fmt.Sprintf(claude, false, 50, 1), aidefile.BudgetExhausted, "budget exhausted: 120 of 100 tokens are used up; the last: ", 2, 120},
		{"no tokens at all", "[budget]\ntokens = \"0k\"\n", "printf x >>calls", aidefile.BudgetExhausted, "0 of 0 tokens", 0, 0},
		{"success beyond the budget", "[budget]\ntokens = \"10\"\n", fmt.Sprintf(claude, false, 50, 0), aidefile.Succeeded, "success (60 tokens)", 1, 60},
		{"a usage file", "", `printf x >>calls; echo 7 >"$COPPICE_USAGE"; echo '{"usage":{"output_tokens":1}}'`, aidefile.Succeeded, "success (7 tokens)", 1, 7},
		{"overspent on the way", "[budget]\ntokens = \"10\"\n", `printf x >>calls; echo 11 >"$COPPICE_USAGE"; sleep 600`, aidefile.BudgetExhausted, "budget exhausted: 11 tokens are used, of 10", 1, 11},
		{
			"overspent on the way, in lines without a type", "[budget]\ntokens = \"10\"\n",
			`printf x >>calls; echo '{"usage":{"output_tokens":6}}'; echo '{"usage":{"output_tokens":11}}'; sleep 600`,
			aidefile.BudgetExhausted, "budget exhausted: 11 tokens are used, of 10", 1, 11,
		},
		{"killed", "[budget]\nmax_retries = 0\n", "kill -9 $$", aidefile.Failed, "SIGKILL", 0, 0},
		{"too slow", "[budget]\ntimeout = \"200ms\"\n", "printf x >>calls; sleep 600 & wait", aidefile.TimedOut, "timeout: it has not ended within 200ms", 1, 0},
		{"a faulty Aidefile", "[daemon]\nrestart = 1\n", "printf x >>calls", aidefile.Faulty, "Aidefile:2:11: restart is an integer", 0, 0},
		{"no secret", "[vault]\nkeys = [\"A_KEY\", \"B_KEY\"]\n", "printf x >>calls", aidefile.Faulty, "the secret A_KEY is missing: write it to ", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newHarness(t, c.aidefile, c.script)
			b.run(context.Background(), c.result, c.reason)
			b.calls(c.calls)
			if b.meter.Used() != c.tokens {
				t.Errorf("%d tokens, expected %d", b.meter.Used(), c.tokens)
			}
			if c.result == aidefile.Faulty && b.file == nil {
				return
			}
			summary, err := os.ReadFile(filepath.Join(b.Runner.dir, summaryName))
			if err != nil || !strings.HasPrefix(string(summary), "STATUS: "+c.result.Status()+"\n") {
				t.Errorf("summary %q, %v", summary, err)
			}
		})
	}
}

// claudeSays returns a script that ends as claude does after a failure.
func claudeSays(code, text string, exit int) string {
	return fmt.Sprintf(`printf x >>calls; echo '{"type":"result","subtype":"success","is_error":true,"api_error":"%s","result":"%s"}'; exit %d`, code, text, exit)
}

// What is known of the calls is kept for the daemon, without secrets, and not that of the run before.
func TestRecords(t *testing.T) {
	b := newHarness(t, "[vault]\nkeys = [\"A_KEY\"]\n", claudeSays("usage_limit_reached", "limit of sesame-1234", 1))
	b.env["A_KEY"] = "sesame-1234"
	request := filepath.Join(b.Runner.dir, RequestName)
	b.request.write(t, request)
	b.run(context.Background(), aidefile.Deferred, "usage limit: limit of [A_KEY]")
	all, err := readRecords(request)
	if err != nil || len(all.Calls) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	c := all.Calls[0]
	if c.CLI != agentcli.Claude || c.Obstacle != outcome.UsageLimit || c.Reason != "limit of [A_KEY]" || c.Began.IsZero() || c.Ended.Before(c.Began) {
		t.Errorf("%+v", c)
	}
	again := New(b.request, b.Runner.dir, nil, io.Discard, io.Discard)
	again.request.Aidefile = "/none"
	again.Run(context.Background())
	if all, err = readRecords(request); err != nil || len(all.Calls) != 0 {
		t.Errorf("a run without a call has %+v, %v", all, err)
	}
}

// claudeProgram has the run call a program of the name claude.
func (b *harness) claudeProgram(script string) {
	b.t.Helper()
	program := filepath.Join(b.dir, "claude")
	exectest.Write(b.t, program, "#!/bin/sh\n"+script)
	b.request.Settings.Command = []string{program}
}

const (
	streamBegins = `{"type":"system","subtype":"init","session_id":"s"}`
	toolBegins   = `{"type":"assistant","message":{"id":"m%d","content":[{"type":"tool_use","id":"t%[1]d","name":"Bash"}],"usage":{"input_tokens":10,"output_tokens":1}}}`
	toolEnds     = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","is_error":false}]}}`
	streamEnds   = `{"type":"result","subtype":"success","is_error":false,"result":"all well","usage":{"input_tokens":20,"output_tokens":10}}`
)

// A call whose result has come is ended if its process stays, with what it has started, and has completed.
func TestLingers(t *testing.T) {
	b := newHarness(t, "", "")
	b.linger = 30 * time.Millisecond
	b.claudeProgram("printf x >>calls\nsleep 1000 &\necho '" + streamEnds + "'\nwait")
	b.run(context.Background(), aidefile.Succeeded, "success (30 tokens)")
	b.calls(1)

	// What a script does after the call of a command line is its own matter.
	b = newHarness(t, "", "printf x >>calls; echo '"+streamEnds+"'; read x <end; exit 0")
	b.linger = time.Nanosecond
	if err := syscall.Mkfifo(filepath.Join(b.dir, "end"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.OpenFile(filepath.Join(b.dir, "end"), os.O_WRONLY, 0) // waits for the script
		if err == nil {
			f.WriteString("end\n")
			f.Close()
		}
	}()
	b.run(context.Background(), aidefile.Succeeded, "success (30 tokens)")

	// Also of one that names the command line.
	b = newHarness(t, "[budget]\nsilence = \"1ms\"\n", "echo '"+streamEnds+"'; sleep 0.5; printf x >>calls")
	b.linger, b.request.Settings.CLI = time.Nanosecond, agentcli.Claude
	b.run(context.Background(), aidefile.Succeeded, "success (30 tokens)")
	b.calls(1)
}

// A model that is silent is asked again. A tool may take its time, and so may a command that reports only its end.
func TestSilence(t *testing.T) {
	b := newHarness(t, "[budget]\nsilence = \"50ms\"\nmax_retries = 1\n", "")
	b.claudeProgram("printf x >>calls\necho '" + streamBegins + "'\nsleep 1000")
	b.run(context.Background(), aidefile.BudgetExhausted, "all 2 tries have failed; the last: timeout: the model was silent for too long")
	b.calls(2)
	for name, before := range map[string]string{
		"a tool":                 "echo '" + streamBegins + "'\necho '" + fmt.Sprintf(toolBegins, 1) + "'\nsleep 0.5\necho '" + fmt.Sprintf(toolEnds, 1) + "'",
		"nothing before its end": "sleep 0.5",
	} {
		b := newHarness(t, "[budget]\nsilence = \"50ms\"\n", "")
		b.claudeProgram("printf x >>calls\n" + before + "\necho '" + streamEnds + "'")
		if b.run(context.Background(), aidefile.Succeeded, "success"); t.Failed() {
			t.Fatal(name)
		}
	}
}

// A call that exceeds its tokens and goes on with a tool is killed at once, not at the next look.
func TestOverspentAtOnce(t *testing.T) {
	b := newHarness(t, "[budget]\ntokens = \"15\"\n", "")
	b.checkInterval = time.Hour
	b.claudeProgram("printf x >>calls\ntrap '' TERM\ncat <<end\n" + strings.Join([]string{
		streamBegins, fmt.Sprintf(toolBegins, 1), fmt.Sprintf(toolEnds, 1), fmt.Sprintf(toolBegins, 2), "end\nsleep 1000",
	}, "\n"))
	b.run(context.Background(), aidefile.BudgetExhausted, "budget exhausted: 22 tokens are used, of 15")
	b.calls(1)
	all := b.records.Records().Calls
	if len(all) != 1 || all[0].Obstacle != outcome.Budget || all[0].Kind != outcome.Escalated {
		t.Errorf("%+v", all)
	}
}

func TestNoSuchCommand(t *testing.T) {
	b := newHarness(t, "", "")
	b.request.Settings.Command = []string{"coppice-no-such-program"}
	b.run(context.Background(), aidefile.Faulty, "coppice-no-such-program")
}

func TestNothingIsLeftOfWhatIsTooSlow(t *testing.T) {
	// Long enough for a busy machine to write the pid of the child.
	b := newHarness(t, "[budget]\ntimeout = \"2s\"\n", `trap "" TERM; (trap "" TERM; while :; do sleep 1; done) & echo $! >child; wait`)
	b.run(context.Background(), aidefile.TimedOut, "2s")
	var pid int
	if _, err := fmt.Sscan(b.read("child"), &pid); err != nil {
		t.Fatal(err)
	}
	id, err := proc.Identify(pid)
	if err != nil {
		return // it is gone
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := id.AwaitDeath(ctx); err != nil {
		t.Fatalf("its child lives: %v", err)
	}
}

func TestAStopEndsIt(t *testing.T) {
	b := newHarness(t, "[hooks]\non_complete = [\"after.sh\"]\n", "echo ready; sleep 600")
	b.write("after.sh", "touch after")
	ctx, cancel := context.WithCancelCause(context.Background())
	heard := &lineWait{text: "ready", seen: make(chan struct{})}
	b.Runner.out = b.secrets.writer(heard)
	go func() {
		<-heard.seen
		cancel(&stopped{15})
	}()
	b.run(ctx, aidefile.Failed, "stopped")
	if _, err := os.Stat(filepath.Join(b.dir, "after")); err == nil {
		t.Error("on_complete has run")
	}
}

type lineWait struct {
	text string
	once sync.Once
	seen chan struct{}
}

func (w *lineWait) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}

func TestWhatACommandIsTold(t *testing.T) {
	b := newHarness(t, `[persona]
name = "the-agent"
style = "brief"
[skills]
include = ["skills/a.md", "b", "../outside"]
[memory]
compact_after = "1"
[workspace]
read = ["~/x", "y"]
[output]
narrative_schema = "WHAT"
`, `cat >stdin; env | sort >env; printf '%s\n' "$0" "$@" >args`)
	b.write("skills/a.md", "how to do a")
	b.write("memory/notes.md", "12345678")
	b.request.Task = "fix {persona}; $(touch hacked) \"'"
	b.request.Settings.Command = append(b.request.Settings.Command, "{task}", "{persona}/{style} {unknown}", "{tokens}", "{dir}")
	b.run(context.Background(), aidefile.Succeeded, "")
	if got, want := b.read("args"), "fix {persona}; $(touch hacked) \"'\nthe-agent/brief {unknown}\n200000\n"+b.dir+"\n"; got != want {
		t.Errorf("arguments %q, expected %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "hacked")); err == nil {
		t.Error("the task was executed")
	}
	for _, part := range []string{
		"You are the-agent.\nbrief", "# Task\n\nfix {persona}; $(touch hacked)", "how to do a", "# Skill: b\n", "# Skill: ../outside\n\nYou know", b.dir + "/memory",
		"It has 2 tokens, and should have at most 1", "- " + b.dir + "/x\n- " + b.dir + "/y", "<aide-summary>", "It contains: WHAT", "You have 200000 tokens.",
	} {
		if !strings.Contains(b.read("stdin"), part) {
			t.Errorf("not in the prompt: %s\n%s", part, b.read("stdin"))
		}
	}
	for _, variable := range []string{
		"COPPICE_TASK=fix {persona}; ", "COPPICE_PERSONA=the-agent\n", "COPPICE_STYLE=brief\n", "COPPICE_TRIGGER=manual\n", "COPPICE_TOKENS=200000\n", "COPPICE_TRY=1\n",
		"COPPICE_SKILLS=skills/a.md:b:../outside\n", "COPPICE_MEMORY=" + b.dir + "/memory\n", "COPPICE_WORKSPACE=" + b.dir + "/x:" + b.dir + "/y\n",
	} {
		if !strings.Contains(b.read("env"), variable) {
			t.Errorf("not in the environment: %s", variable)
		}
	}
}

func TestTheNextTryIsToldOfTheLast(t *testing.T) {
	b := newHarness(t, "[budget]\nmax_retries = 1\n", "cat >stdin; exit 7")
	b.run(context.Background(), aidefile.BudgetExhausted, "all 2 tries")
	if !strings.Contains(b.read("stdin"), "This is try 2. The one before it has failed: ") || !strings.Contains(b.read("stdin"), "exit code 7") {
		t.Error(b.read("stdin"))
	}
}

// The delay of the policy comes between two attempts, and none after the last. A stop and the timeout
// end it at once.
func TestPauses(t *testing.T) {
	for _, tt := range []struct {
		daemon string
		want   []string
	}{
		{"", []string{"1ms", "2ms", "4ms"}},
		{"[daemon]\nbackoff = \"linear\"\n", []string{"1ms", "2ms", "3ms"}},
		{"[daemon]\nbackoff = \"fixed\"\n", []string{"1ms", "1ms", "1ms"}},
	} {
		b := newHarness(t, tt.daemon, "exit 3")
		b.run(context.Background(), aidefile.BudgetExhausted, "all 4 tries")
		var pauses []string
		for _, told := range b.told {
			if _, after, is := strings.Cut(told, " begins in "); is {
				pauses = append(pauses, after)
			}
		}
		if !slices.Equal(pauses, tt.want) {
			t.Errorf("%s: %q, want %q", tt.daemon, pauses, tt.want)
		}
	}
	for timeout, want := range map[string]aidefile.Result{"": aidefile.Failed, "[budget]\ntimeout = \"500ms\"\n": aidefile.TimedOut} {
		b := newHarness(t, timeout, "printf x >>calls; exit 3")
		b.request.Settings.Base = time.Hour
		ctx, cancel := context.WithCancelCause(context.Background())
		tell := b.Tell
		b.Tell = func(s string) {
			if tell(s); timeout == "" && strings.Contains(s, " begins in ") {
				cancel(&stopped{syscall.SIGTERM})
			}
		}
		b.run(ctx, want, "")
		b.calls(1)
		cancel(nil)
	}
}

func TestALongTask(t *testing.T) {
	b := newHarness(t, "", "wc -c >size")
	b.request.Task = strings.Repeat("a", 200<<10)
	b.run(context.Background(), aidefile.Succeeded, "")
	b = newHarness(t, "", "true")
	b.request.Task = strings.Repeat("a", 200<<10)
	b.request.Settings.Command = append(b.request.Settings.Command, "{task}")
	b.run(context.Background(), aidefile.Faulty, "has 204800 bytes, expected at most 131071")
}

// A task never becomes an option of the command.
func TestTaskIsNoOption(t *testing.T) {
	b := newHarness(t, "", "touch called")
	b.request.Task = "--dangerously-skip-permissions"
	b.request.Settings.Command = append(b.request.Settings.Command, "{task}")
	b.run(context.Background(), aidefile.Faulty, `write "--" right before it`)
	if _, err := os.Stat(filepath.Join(b.dir, "called")); err == nil {
		t.Error("the command was called")
	}
}

func TestSecrets(t *testing.T) {
	const key, token = "sk-a-very-secret-key", "line one of it\nline two of it"
	b := newHarness(t, "[vault]\nkeys = [\"KEY\", \"TOKEN\"]\n[hooks]\non_spawn = [\"h.sh\"]\n[budget]\nmax_retries = 0\n",
		`echo "key $KEY"; printf 'sk-a-very'; sleep 0.1; echo '-secret-key!'; echo "$TOKEN" >&2; printf '<aide-summary>%s</aide-summary>\n' "$KEY"; test "$KEY" = sk-a-very-secret-key; exit 1`, "KEY="+key)
	b.write("vault/TOKEN", token+"\n")
	b.write("h.sh", `echo "hook $KEY"`)
	b.run(context.Background(), aidefile.Failed, "exit code 1")
	summary, _ := os.ReadFile(filepath.Join(b.Runner.dir, summaryName))
	all := b.out.String() + string(summary) + strings.Join(b.told, "\n")
	for _, secret := range []string{key, "line one of it", "line two of it"} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in what is logged:\n%s", secret, all)
		}
	}
	for _, text := range []string{"key [KEY]\n", "\n[KEY]!\n", "[TOKEN]\n[TOKEN]\n", "hook [KEY]\n"} {
		if !strings.Contains(b.out.String(), text) {
			t.Errorf("%q is not in %q", text, b.out.String())
		}
	}
}

// A secret is also hidden in the spelling of JSON.
func TestSecretsInJSON(t *testing.T) {
	for _, c := range []struct{ secret, line string }{
		{`pass"word\end`, `{"result":"it is pass\"word\\end, really"}`},
		{`"quoted"`, `{"result":"\"quoted\""}`},
		{"tab\tbed<&>", `{"result":"tab\tbed<&>"}`},
		{"key one\nkey two", `{"result":"key one\nkey two"}`},
		{"pässwort", `{"result":"pässwort"}`},
	} {
		s := &secrets{}
		if err := s.find([]string{"KEY"}, "", map[string]string{"KEY": c.secret}); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{c.line, c.secret} {
			got := s.redact(text)
			if !strings.Contains(got, "[KEY]") || strings.Contains(got, "word") || strings.Contains(got, "quoted") || strings.Contains(got, "bed") || strings.Contains(got, "key") || strings.Contains(got, "wort") {
				t.Errorf("%s became %s", text, got)
			}
		}
	}
}

func TestSecretFiles(t *testing.T) {
	for _, c := range []struct {
		text     string
		mode     os.FileMode
		expected string
	}{
		{"x", 0o644, "the secret KEY can be read by others: chmod 600 "},
		{"", 0o600, "is empty or no text"},
		{"a\x00b", 0o600, "is empty or no text"},
		{strings.Repeat("a", maxSecret+1), 0o600, "has more than 65536 bytes"},
	} {
		b := newHarness(t, "[vault]\nkeys = [\"KEY\"]\n", "true")
		b.write("vault/KEY", c.text)
		if err := os.Chmod(filepath.Join(b.dir, "vault/KEY"), c.mode); err != nil {
			t.Fatal(err)
		}
		b.run(context.Background(), aidefile.Faulty, c.expected)
	}
	b := newHarness(t, "[vault]\nkeys = [\"KEY\"]\n", "true")
	b.write("vault/KEY/x", "")
	b.run(context.Background(), aidefile.Faulty, "is no regular file")
}

// For any split into writes, no part of a secret is written, and all other text is.
func TestRedactor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &secrets{}
		env := map[string]string{}
		var names []string
		for i, value := range rapid.SliceOfN(rapid.StringMatching(`[ab]{4,9}`), 1, 4).Draw(t, "secrets") {
			name := fmt.Sprintf("K%d", i)
			env[name], names = value, append(names, name)
		}
		if err := s.find(names, "", env); err != nil {
			t.Fatal(err)
		}
		text := rapid.StringMatching(`[abc\n]{0,200}`).Draw(t, "text")
		var out bytes.Buffer
		w := s.writer(&out)
		rest := text
		for rest != "" {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		w.flush()
		if got, want := out.String(), s.redact(text); got != want {
			t.Fatalf("%q, expected %q", got, want)
		}
		for _, value := range env {
			if strings.Contains(out.String(), value) {
				t.Fatalf("%q is in %q", value, out.String())
			}
		}
	})
}

// A line without an end is written, too.
func TestRedactorOfALongLine(t *testing.T) {
	s := &secrets{}
	if err := s.find([]string{"KEY"}, "", map[string]string{"KEY": "secret-value"}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := s.writer(&out)
	chunk := []byte(strings.Repeat("0123456789", 1000) + "secret-value")
	for range 100 {
		for _, half := range [][]byte{chunk[:len(chunk)-6], chunk[len(chunk)-6:]} {
			w.Write(half)
			if len(w.pending) > 2*maxSecret {
				t.Fatalf("%d bytes are kept back", len(w.pending))
			}
		}
	}
	w.flush()
	if n := strings.Count(out.String(), "[KEY]"); n != 100 || strings.Contains(out.String(), "secret-value") || out.Len() != 100*(10_000+len("[KEY]")) {
		t.Errorf("%d times hidden, %d bytes", n, out.Len())
	}
}

func TestHooks(t *testing.T) {
	b := newHarness(t, "[hooks]\non_spawn = [\"inject-vault\", \"a.sh\"]\non_complete = [\"b.sh\"]\n[budget]\nmax_retries = 0\n", "echo command >>log; exit 1")
	b.write("a.sh", `echo "$COPPICE_HOOK" >>log`)
	b.write("b.sh", `echo "$COPPICE_HOOK $COPPICE_RESULT $COPPICE_REASON" >>log; head -n 1 "$COPPICE_SUMMARY" >>log`)
	b.run(context.Background(), aidefile.Failed, "exit code 1")
	if got, want := b.read("log"), "on_spawn\ncommand\non_complete failure exit code 1\nSTATUS: partial\n"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}

	b = newHarness(t, "[hooks]\non_spawn = [\"a.sh\"]\non_complete = [\"b.sh\"]\n", "printf x >>calls")
	b.write("a.sh", "exit 5")
	b.write("b.sh", `echo "$COPPICE_RESULT" >>log`)
	b.run(context.Background(), aidefile.Faulty, "on_spawn a.sh: exit code 5")
	b.calls(0)
	if got := b.read("log"); got != "faulty\n" {
		t.Errorf("%q", got)
	}

	b = newHarness(t, "[hooks]\non_complete = [\"b.sh\"]\n", "true")
	b.write("b.sh", "exit 6")
	b.run(context.Background(), aidefile.Failed, "on_complete b.sh: exit code 6")
}

// A hook that hangs is ended, and so is gh.
func TestWhatHangs(t *testing.T) {
	const hang = "sleep 600 & wait"
	hanging := func(t *testing.T, file string) *harness {
		b := newHarness(t, file, "true")
		b.write("h.sh", hang)
		b.hookTimeout = 200 * time.Millisecond
		return b
	}
	b := hanging(t, "[hooks]\non_spawn = [\"h.sh\"]\n")
	b.run(context.Background(), aidefile.Faulty, "on_spawn h.sh: it has not ended within 200ms")
	b = hanging(t, "[hooks]\non_complete = [\"h.sh\"]\n")
	b.run(context.Background(), aidefile.Failed, "on_complete h.sh: it has not ended within 200ms")
	b = hanging(t, "[hooks]\non_spawn = [\"h.sh\"]\n[budget]\ntimeout = \"100ms\"\n")
	b.hookTimeout = time.Hour
	b.run(context.Background(), aidefile.TimedOut, "on_spawn h.sh: it has not ended within 100ms")

	b = hanging(t, "")
	b.write("bin/gh", "#!/bin/sh\n"+hang+"\n")
	if err := os.Chmod(filepath.Join(b.dir, "bin/gh"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.env["PATH"] = filepath.Join(b.dir, "bin") + ":" + b.env["PATH"]
	b.request.Issue = 5
	b.run(context.Background(), aidefile.Succeeded, "done, but issue 5 could not be closed: it has not ended within 200ms")
	b = hanging(t, "")
	b.env["PATH"], b.request.Issue = "/nonexistent", 5
	b.request.Settings.Command = []string{"/bin/true"}
	b.run(context.Background(), aidefile.Succeeded, "done, but issue 5 could not be closed: ")
}

func TestCommitMemory(t *testing.T) {
	exectest.Need(t, "git")
	git := func(b *harness, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = b.dir, b.environ()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	script := `mkdir -p memory; date +%N >>memory/notes.md; echo other >other`
	env := []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_CONFIG_NOSYSTEM=1"}
	b := newHarness(t, "[persona]\nname = \"n\"\n[hooks]\non_complete = [\"commit-memory\"]\n", script, env...)
	git(b, "init", "-q", "-b", "main")
	b.run(context.Background(), aidefile.Succeeded, "")
	if got := git(b, "log", "--format=%s", "--name-only"); got != "n: memory\n\nmemory/notes.md" {
		t.Errorf("log %q", got)
	}
	b.request.Settings.Command = []string{"true"}
	b.run(context.Background(), aidefile.Succeeded, "")
	if got := git(b, "rev-list", "--count", "HEAD"); got != "1" {
		t.Errorf("%s commits, expected none for nothing", got)
	}

	b = newHarness(t, "[hooks]\non_complete = [\"commit-memory\"]\n", script, env...) // no repository
	b.run(context.Background(), aidefile.Failed, "on_complete commit-memory: ")
}

func TestIssues(t *testing.T) {
	b := newHarness(t, "", "echo done")
	b.write("bin/gh", "#!/bin/sh\necho \"$@\" >>gh.log\n")
	if err := os.Chmod(filepath.Join(b.dir, "bin/gh"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.env["PATH"] = filepath.Join(b.dir, "bin") + ":" + b.env["PATH"]
	b.request.Issue = 7
	b.run(context.Background(), aidefile.Succeeded, "success")
	if got := b.read("gh.log"); !strings.HasPrefix(got, "issue comment 7 --body-file ") || !strings.HasSuffix(got, "issue close 7\n") {
		t.Errorf("%q", got)
	}
	b.request.Settings.Command = []string{"false"}
	os.Remove(filepath.Join(b.dir, "gh.log"))
	b.run(context.Background(), aidefile.BudgetExhausted, "all 4 tries")
	if _, err := os.Stat(filepath.Join(b.dir, "gh.log")); err == nil {
		t.Error("an issue was touched after a failure")
	}
	b.request.Settings.Command = []string{"true"}
	b.write("bin/gh", "#!/bin/sh\nexit 1\n")
	b.run(context.Background(), aidefile.Succeeded, "done, but issue 7 could not be closed: exit code 1")
}

func TestRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), RequestName)
	o := RunRequest{Aidefile: "/a", Trigger: "issue", Task: "täsk\x00\n", Issue: 3, Settings: aidefile.Settings{Command: []string{"a", "b"}, Usage: aidefile.FromFile, Vault: "/d"}, Fired: time.Now().UTC().Round(0)}
	o.write(t, path)
	got, err := Read(path)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(o) {
		t.Errorf("%+v, %v, expected %+v", got, err, o)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), RequestName) {
		t.Errorf("half a request: %v", err)
	}
}
