package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a call of a script with the name of a command line.
type program struct {
	Program
	mu       sync.Mutex
	out, err bytes.Buffer
	on       map[string]func() // called once standard output has the text
}

// newProgram returns a call of a script.
func newProgram(t *testing.T, script string) *program {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "claude")
	exectest.Write(t, file, "#!/bin/sh\n"+script)
	p := &program{on: map[string]func(){}}
	env := []string{"PATH=" + os.Getenv("PATH"), "CLAUDE_CONFIG_DIR=" + dir}
	p.Command = proc.Command{Argv: []string{file}, Dir: dir, Env: env}
	p.Call = New(p.Argv, session.Call{CLI: agentcli.Claude, Dir: dir, Env: env, Began: time.Now()})
	p.Silence, p.Interval, p.Output = time.Hour, 10*time.Millisecond, p.write
	return p
}

func (p *program) write(s proc.Stream, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == proc.Stderr {
		p.err.Write(data)
		return
	}
	p.out.Write(data)
	for text, f := range p.on {
		if bytes.Contains(p.out.Bytes(), []byte(text)) {
			delete(p.on, text)
			f()
		}
	}
}

// wants fails the test unless the program was ended for a reason, and returns what is known of its call.
func (p *program) wants(t *testing.T, ctx context.Context, stop agentcli.Stop, reason string) agentcli.Record {
	t.Helper()
	exit, err := Run(ctx, p.Program)
	if StopOf(err) != stop || (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
		t.Errorf("%q, %v; expected %q, %s", StopOf(err), err, stop, reason)
	}
	if exit.Kind == 0 {
		t.Error("it has no exit")
	}
	p.Call.Finish()
	return p.Call.Exited(exit, StopOf(err)).Record()
}

// says returns a script that prints lines.
func says(lines ...string) string { return "cat <<'end'\n" + strings.Join(lines, "") + "end\n" }

const toolDone = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":false}]}}` +
	"\n"

// asked is a script that tells when it is asked to end, with an exit code of 7.
const asked = "trap 'echo asked; exit 7' TERM\n"

const forever = "echo ready\nsleep 1000 & wait\n"

// What a program writes goes to the caller and to the call, and its exit is no error.
func TestRun(t *testing.T) {
	t.Parallel()
	p := newProgram(t, says(begins, result)+"echo 'on stderr' >&2\npwd >&2; cat; exit 3\n")
	in, err := os.Open(p.Argv[0])
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p.Stdin = in
	exit, err := Run(t.Context(), p.Program)
	if err != nil || exit.Kind != supervisor.Failure {
		t.Errorf("%v, %v", exit, err)
	}
	if out, errs := p.out.String(), p.err.String(); !strings.HasPrefix(out, begins+result+"#!/bin/sh\n") ||
		errs != "on stderr\n"+p.Dir+"\n" {
		t.Errorf("%q, %q", out, errs)
	}
	p.Call.Finish()
	end := p.Call.Exited(exit, agentcli.NotStopped)
	if end.Code != 3 || end.Exit != "exit code 3" || end.Output.Text != "done" || !end.Output.Ended {
		t.Errorf("%+v", end)
	}

	p = newProgram(t, says(begins, result))
	if r := p.wants(t, t.Context(), agentcli.NotStopped, ""); r.Kind != outcome.Completed || *r.Tokens != 30 {
		t.Errorf("%+v", r)
	}
	p = newProgram(t, "exit 3")
	p.Call = nil // as a hook
	if exit, err := Run(t.Context(), p.Program); err != nil || exit.String() != "exit code 3" {
		t.Errorf("%v, %v", exit, err)
	}
}

// A program that cannot be started was not stopped, and one whose context has ended is not started.
func TestRunDoesNotStart(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "touch started")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no more"))
	exit, err := Run(ctx, p.Program)
	if StopOf(err) != agentcli.ByOperator || err.Error() != "no more" || exit.Kind != 0 {
		t.Errorf("%v, %v", exit, err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "started")); err == nil {
		t.Error("it has run")
	}
	p.Argv = []string{"./no-such-program"}
	exit, err = Run(t.Context(), p.Program)
	if !errors.Is(err, proc.ErrCommand) || StopOf(err) != agentcli.NotStopped || exit.Kind != 0 {
		t.Errorf("%v, %v", exit, err)
	}
}

// The end of the context asks the program to end, and kills it when it does not.
func TestRunContext(t *testing.T) {
	t.Parallel()
	p := newProgram(t, forever)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("too long"))
	defer cancel()
	exit, err := Run(ctx, p.Program)
	if StopOf(err) != agentcli.TookTooLong || err.Error() != "too long" {
		t.Errorf("%v", err)
	}
	if r := p.Call.Exited(exit, StopOf(err)).Record(); r.Obstacle != outcome.Timeout {
		t.Errorf("%+v", r)
	}
	for script, want := range map[string]supervisor.ExitKind{
		asked + forever: supervisor.Failure, "trap '' TERM\n" + forever: supervisor.Killed,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := newProgram(t, script)
		p.on["ready"] = func() { cancel(errors.New("stopped")) }
		exit, err := Run(ctx, p.Program)
		if StopOf(err) != agentcli.ByOperator || err.Error() != "stopped" || exit.Kind != want {
			t.Errorf("%v, %v, expected %v", err, exit, want)
		}
		if told := strings.Contains(p.out.String(), "asked"); told != (want == supervisor.Failure) {
			t.Errorf("it was asked: %v", told)
		}
	}
}

// A call that is silent, or that stays after its end, is asked to end.
func TestRunStale(t *testing.T) {
	t.Parallel()
	p := newProgram(t, asked+says(begins)+forever)
	p.Silence = 30 * time.Millisecond
	if r := p.wants(t, t.Context(), agentcli.Silent, "the model was silent for 30ms"); r.Obstacle != outcome.Timeout {
		t.Errorf("%+v", r)
	}
	p = newProgram(t, asked+says(begins, result)+forever)
	p.Linger = 30 * time.Millisecond
	r := p.wants(t, t.Context(), agentcli.AfterItsEnd, "its process stays")
	if r.Kind != outcome.Completed || *r.Tokens != 30 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(p.out.String(), "asked") {
		t.Error("it was killed at once")
	}
}

// over limits the tokens of the call, and counts how often it was asked.
func (p *program) over(limit int64) (asked *int) {
	asked = new(int)
	p.Check = func() error {
		*asked++
		if r := p.Call.Counts(); r.Tokens != nil && *r.Tokens > limit {
			return fmt.Errorf("over %d", limit)
		}
		return nil
	}
	return asked
}

// A call over its budget is killed without a word: at once if it goes on with a tool, else at the second look.
func TestRunOverBudget(t *testing.T) {
	t.Parallel()
	p := newProgram(t, asked+says(begins, tool)+forever)
	p.Interval = time.Hour
	p.over(10)
	if r := p.wants(t, t.Context(), agentcli.OverBudget, "over 10"); r.Obstacle != outcome.Budget {
		t.Errorf("%+v", r)
	}
	if strings.Contains(p.out.String(), "asked") {
		t.Error("it was asked to end")
	}
	p = newProgram(t, asked+says(begins, tool, toolDone)+forever)
	looks := p.over(10)
	p.wants(t, t.Context(), agentcli.OverBudget, "over 10")
	if *looks < 2 {
		t.Errorf("killed at look %d", *looks)
	}
	p = newProgram(t, says(begins, tool)+"exit 0\n")
	p.over(11)
	p.wants(t, t.Context(), agentcli.NotStopped, "")
}

// A call that has reported its end is no longer over its budget: a kill would save nothing.
func TestRunOverBudgetAtItsEnd(t *testing.T) {
	t.Parallel()
	p := newProgram(t, says(begins, result)+"read x <end; exit 0\n")
	end := filepath.Join(p.Dir, "end")
	if err := syscall.Mkfifo(end, 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := os.OpenFile(end, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release.Close()
	p.Linger = time.Hour
	looks := 0
	p.Check = func() error {
		if !p.Call.Report().Ended {
			return nil
		}
		if looks++; looks == 3 {
			release.WriteString("x\n")
		}
		return errors.New("over")
	}
	p.wants(t, t.Context(), agentcli.NotStopped, "")
}

// A child that has left the group and keeps the pipe open does not hold up the end.
func TestRunPipeStaysOpen(t *testing.T) {
	t.Parallel()
	exectest.Need(t, "setsid")
	p := newProgram(t, "setsid sh -c 'echo $$ >child.new; mv child.new child; exec sleep 1000' &\n"+
		"while ! test -e child; do sleep 0.01; done\necho last\n")
	p.wants(t, t.Context(), agentcli.NotStopped, "")
	if p.out.String() != "last\n" {
		t.Errorf("%q", p.out.String())
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	exectest.Signal(t, pid, syscall.SIGKILL) // it must still run, else the test shows nothing
}

// A program that writes without end costs bounded memory, and is ended like any other.
func TestRunEndlessOutput(t *testing.T) {
	t.Parallel()
	p := newProgram(t, says(begins)+"exec yes\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var tail Tail
	written := 0
	p.Output = func(_ proc.Stream, data []byte) {
		tail.Write(data)
		if written += len(data); written > 3*MaxTail {
			cancel(errors.New("enough"))
		}
	}
	p.wants(t, ctx, agentcli.ByOperator, "enough")
	if n := len(tail.String()); n < MaxTail || n > 2*MaxTail {
		t.Errorf("%d bytes are kept", n)
	}
}

// closing is a conversation that is over once the program has written something.
type closing struct {
	over     chan struct{}
	started  *proc.Process
	stopping bool
}

func (c *closing) Started(p *proc.Process) { c.started = p }
func (c *closing) Stop()                   { c.stopping = true }
func (c *closing) Over() <-chan struct{}   { return c.over }

// A program whose conversation is over has to end, too. What it says is that of the conversation.
func TestRunTalk(t *testing.T) {
	t.Parallel()
	p := newProgram(t, asked+"echo 'failed' >&2\n"+says(begins, result)+forever)
	c := &closing{over: make(chan struct{})}
	p.Talk = c
	p.on["ready"] = func() { close(c.over) }
	p.wants(t, t.Context(), agentcli.AfterItsEnd, "its process stays")
	if c.started == nil || !c.stopping || p.Call.Report().Seen || p.err.String() != "failed\n" {
		t.Errorf("%+v, %+v, %q", c, p.Call.Report(), p.err.String())
	}
}

func TestInterrupted(t *testing.T) {
	began := time.Now()
	c := New([]string{"claude"}, session.Call{CLI: agentcli.Claude, Dir: "/", Began: began})
	c.Write([]byte(begins + tool))
	r, refused := c.Interrupted()
	if refused != nil || *r.Tokens != 11 || !r.Began.Equal(began) || !r.Ended.IsZero() || r.Obstacle != outcome.Crash ||
		r.Reason != "it was killed with its run" {
		t.Errorf("%+v, %+v", r, refused)
	}
	c.Write([]byte(`{"type":"system","subtype":"api_retry","attempt":1,"error_status":401,` +
		`"error":"authentication_failed"}` + "\n"))
	if _, refused = c.Interrupted(); refused == nil || refused.Obstacle != outcome.Authentication {
		t.Errorf("%+v", refused)
	}
}

func TestTail(t *testing.T) {
	var tail Tail
	big := bytes.Repeat([]byte("x"), MaxTail)
	for range 5 {
		tail.Write(big)
	}
	tail.Write([]byte("end\xff"))
	if s := tail.String(); !strings.HasSuffix(s, "xend\uFFFD") || len(s) < MaxTail || len(s) > 2*MaxTail+3 {
		t.Errorf("%d bytes, the end is %q", len(s), s[len(s)-8:])
	}
	if tail.Reset(); tail.String() != "" {
		t.Error("not empty")
	}
}
