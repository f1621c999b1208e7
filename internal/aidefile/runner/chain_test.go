package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// next is another run of the same chain, as the daemon asks for it.
func (b *harness) next() *harness {
	request := b.request
	if request.Spent = agentcli.Add(request.Spent, b.records.Records().Used); b.result == aidefile.Succeeded {
		request.Spent = 0
	}
	n := &harness{t: b.t, dir: b.dir}
	n.Runner = New(request, b.Runner.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir}, &n.out, &n.out)
	n.checkInterval = b.checkInterval
	n.Tell = func(s string) { n.told = append(n.told, s) }
	return n
}

// The runs of a chain share a budget, although each is a process of its own.
func TestChain(t *testing.T) {
	const use = `printf x >>calls; echo '{"usage":{"output_tokens":60}}'; test -e ok`
	b := newHarness(t, "[budget]\ntokens = 100\nchain_tokens = 150\nmax_retries = 0\n[hooks]\non_spawn = [\"h.sh\"]\n", use)
	b.write("h.sh", "printf h >>hooks")
	b.run(context.Background(), aidefile.Failed, "exit code 1 (60 tokens)")
	b = b.next()
	b.run(context.Background(), aidefile.Failed, "exit code 1 (60 tokens)")
	b = b.next()
	if b.run(context.Background(), aidefile.Spent, "60 of 30 tokens are used up; the last: exit code 1; its chain of runs has used 180 tokens, of 150 (60 tokens)"); b.meter.Tokens != 30 {
		t.Errorf("the third run had %d tokens, expected 30", b.meter.Tokens)
	}
	b.calls(3)
	b = b.next() // by any trigger
	b.run(context.Background(), aidefile.Spent, "its chain of runs has used 180 tokens, of 150")
	b.calls(3)
	if got := b.read("hooks"); got != "hhh" {
		t.Errorf("hooks %q: what can do nothing needs no preparation", got)
	}

	b = b.next() // a new chain
	b.request.Spent = 0
	b.run(context.Background(), aidefile.Failed, "exit code 1 (60 tokens)")
	b.write("ok", "")
	b = b.next()
	b.run(context.Background(), aidefile.Succeeded, "")
	if err := os.Remove(filepath.Join(b.dir, "ok")); err != nil {
		t.Fatal(err)
	}
	b = b.next() // a success begins a new chain
	if b.run(context.Background(), aidefile.Failed, "exit code 1 (60 tokens)"); b.request.Spent != 0 || b.chainUsed() != 60 {
		t.Errorf("after a success: %d tokens were spent before, %d by now", b.request.Spent, b.chainUsed())
	}
}

// Without a budget of the chain each run has its own budget.
func TestABudgetForEachRun(t *testing.T) {
	b := newHarness(t, "[budget]\ntokens = 100\nmax_retries = 0\n", `echo '{"usage":{"output_tokens":60}}'; exit 1`)
	for range 5 {
		if b.run(context.Background(), aidefile.Failed, "exit code 1 (60 tokens)"); b.meter.Tokens != 100 {
			t.Errorf("it had %d tokens", b.meter.Tokens)
		}
		b = b.next()
	}
}

// A run that is killed leaves what it had used, and what is known of its call.
func TestAKilledRun(t *testing.T) {
	b := newHarness(t, "", "")
	b.claudeProgram(`test $COPPICE_TRY = 1 && exit 3
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"assistant","message":{"id":"a","model":"m","usage":{"output_tokens":300}}}'
read x <"$0.end"`)
	if err := syscall.Mkfifo(b.request.Settings.Command[0]+".end", 0o600); err != nil {
		t.Fatal(err)
	}
	request := filepath.Join(b.Runner.dir, RequestName)
	b.request.write(t, request)
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.result = b.Run(ctx)
	}()
	deadline := time.Now().Add(time.Minute)
	for {
		all, err := readRecords(request)
		if err != nil {
			t.Fatal(err)
		}
		if all.Used == 300 && len(all.Calls) == 2 {
			last := all.Calls[1]
			if *last.Tokens != 300 || last.Session != "s" || last.Obstacle != outcome.Crash || last.Began.IsZero() ||
				!last.Ended.IsZero() || last.Reason != "it was killed with its run" || all.Run == "" {
				t.Errorf("%+v of %+v", last, all)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", all)
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel(&stopped{15})
	<-ended
	all, err := readRecords(request)
	if err != nil || len(all.Calls) != 2 || all.Running != nil || all.Used != 300 || b.result != aidefile.Failed {
		t.Errorf("after its end: %v, %+v, %v", b.result, all, err)
	}
}

// Calls that are no longer listed are counted, so that each keeps its number; their tokens count.
func TestManyCalls(t *testing.T) {
	b := newHarness(t, "[budget]\nmax_retries = 102\n[daemon]\nbackoff = \"fixed\"\n", `echo '{"usage":{"output_tokens":1}}'; exit 1`)
	b.request.Settings.Base = time.Nanosecond
	b.run(context.Background(), aidefile.BudgetExhausted, "all 103 tries have failed")
	if all := b.records.Records(); all.Dropped != 3 || len(all.Calls) != 100 || all.Used != 103 {
		t.Errorf("%d dropped, %d listed, %d used", all.Dropped, len(all.Calls), all.Used)
	}
}

// Another run of the same request has another identity.
func TestRunIdentity(t *testing.T) {
	b := newHarness(t, "", "true")
	b.run(context.Background(), aidefile.Succeeded, "")
	n := b.next()
	n.run(context.Background(), aidefile.Succeeded, "")
	if b.records.Records().Run == n.records.Records().Run || len(n.records.Records().Run) < 16 {
		t.Errorf("%q, %q", b.records.Records().Run, n.records.Records().Run)
	}
}

// A total of a session that includes earlier runs counts as the difference, also to a call of the same run.
func TestTotalsOfSessions(t *testing.T) {
	turn := `echo '{"type":"thread.started","thread_id":"s"}'; echo '{"type":"turn.completed","usage":{"output_tokens":%d}}'; exit %d` + "\n"
	b := newHarness(t, "", "")
	b.program("codex", `if test $COPPICE_TRY = 1; then `+fmt.Sprintf(turn, 130, 3)+"fi\n"+fmt.Sprintf(turn, 150, 0))
	b.sessions["s"] = agentcli.Models{"": {Output: 100}}
	b.run(context.Background(), aidefile.Succeeded, "success (50 tokens)")
	all := b.records.Records().Calls
	if len(all) != 2 || *all[0].Tokens != 130 || !all[0].Cumulative || *all[1].Tokens != 150 || b.records.Records().Used != 50 {
		t.Errorf("%+v", b.records)
	}
	request := RunRequest{Sessions: map[string]agentcli.Models{"s": {"": {Output: 100}}}}
	if n := New(request, t.TempDir(), nil, &b.out, &b.out); n.sessions["s"].Total().Tokens() != 100 {
		t.Error("the totals of a request are not used")
	}
}

// What is known of the run before is not that of another request, and can be removed.
func TestRecordsOfAnotherRequest(t *testing.T) {
	b := newHarness(t, "", "true")
	request := filepath.Join(b.Runner.dir, RequestName)
	b.request.write(t, request)
	b.run(context.Background(), aidefile.Succeeded, "")
	known := func(want int) {
		t.Helper()
		if all, err := readRecords(request); err != nil || len(all.Calls) != want {
			t.Errorf("%+v, %v, expected %d calls", all, err, want)
		}
	}
	known(1)
	other := b.request
	other.Fired = time.Now()
	other.write(t, request)
	known(0)
	b.request.write(t, request)
	known(1)
	if err := removeRecords(request); err != nil {
		t.Error(err)
	}
	known(0)
}

// The tokens that command lines of models print are counted at once or at their end. A call that
// exceeds the budget is ended.
func TestTokensOnTheOutput(t *testing.T) {
	message := func(id string, n int) string {
		return fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"content":[{"type":"text","text":"step"}],"usage":{"input_tokens":4,"cache_read_input_tokens":5000,"output_tokens":%d}}}`, id, n)
	}
	result := `{"type":"result","subtype":"success","is_error":false,"result":"<aide-summary>all is up</aide-summary>","usage":{"input_tokens":4,"output_tokens":400}}`
	for _, c := range []struct {
		name, script string
		result       aidefile.Result
		reason       string
		tokens       int64
	}{
		{"claude, in its budget", "init\n" + message("a", 96) + "\n" + result, aidefile.Succeeded, "success (404 tokens)", 404},
		{"claude, beyond it", message("a", 96) + "\n" + message("b", 996) + "\n~", aidefile.BudgetExhausted, "budget exhausted: 1100 tokens are used, of 1000", 1100},
		{"claude, the same message again and again", strings.Repeat(message("a", 496)+"\n", 5) + result, aidefile.Succeeded, "success (500 tokens)", 500},
		{"claude, beyond it with its last word", message("a", 96) + "\n" + strings.Replace(result, "400", "4000", 1), aidefile.Succeeded, "success (4004 tokens)", 4004},
		{"claude, cut off", message("a", 96) + "\n" + result[:60] + "\n!", aidefile.Failed, "exit code 1", 100},
		{"codex", `{"type":"turn.started"}` + "\n" + `{"type":"turn.completed","usage":{"input_tokens":900,"cached_input_tokens":800,"output_tokens":20}}`, aidefile.Succeeded, "success (120 tokens)", 120},
		{"codex, failed", `{"type":"turn.failed","error":{"message":"status 401"}}`, aidefile.Failed, "it ended with 0, and has failed: status 401", 0},
		{"gemini", "{\n  \"response\": \"fine\",\n  \"stats\": {\n    \"models\": {\n      \"m\": {\"tokens\": {\"total\": 70, \"cached\": 30}}\n    }\n  }\n}", aidefile.Succeeded, "success (40 tokens)", 40},
		{"opencode, beyond it", strings.Repeat(`{"type":"step_finish","sessionID":"s","part":{"reason":"tool-calls","tokens":{"input":400,"output":100,"reasoning":1}}}`+"\n", 2) + "~", aidefile.BudgetExhausted, "1002 tokens are used, of 1000", 1002},
		{"rubbish", "\xff{{{\"\n}}}\n{\"usage\":\n" + message("a", 1), aidefile.Succeeded, "success (5 tokens)", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := "cat said"
			text := c.script
			if rest, ok := strings.CutSuffix(text, "~"); ok { // it works on
				script, text = "cat said; sleep 600", rest
			} else if rest, ok := strings.CutSuffix(text, "!"); ok {
				script, text = "cat said; exit 1", rest
			}
			b := newHarness(t, "[budget]\ntokens = 1000\nmax_retries = 0\n", script)
			b.write("said", text)
			if b.run(context.Background(), c.result, c.reason); b.meter.Used() != c.tokens {
				t.Errorf("%d tokens, expected %d", b.meter.Used(), c.tokens)
			}
		})
	}
	b := newHarness(t, "", "cat said")
	b.write("said", message("a", 5)+"\n"+result+"\n")
	b.run(context.Background(), aidefile.Succeeded, "")
	if summary, err := os.ReadFile(filepath.Join(b.Runner.dir, summaryName)); err != nil || !strings.HasSuffix(string(summary), "\n\nall is up\n") {
		t.Errorf("summary %q, %v", summary, err)
	}
}

// A line that never ends costs bounded memory, and no tokens are lost after it.
func TestAHugeOutput(t *testing.T) {
	b := newHarness(t, "", `head -c 40000000 /dev/zero | tr '\0' x; echo; echo '{"usage":{"output_tokens":7}}'`)
	b.Runner.out = b.secrets.writer(io.Discard)
	if b.run(context.Background(), aidefile.Succeeded, "success (7 tokens)"); len(b.tail.String()) > 2*call.MaxTail {
		t.Errorf("%d bytes are kept", len(b.tail.String()))
	}
}

// The project selects where the command reports its tokens.
func TestSourcesOfUsage(t *testing.T) {
	for _, c := range []struct {
		source aidefile.Source
		script string
		tokens int64
	}{
		{aidefile.AnySource, `echo 7 >"$COPPICE_USAGE"`, 7},
		{aidefile.AnySource, `true`, 30},
		{aidefile.AnySource, `echo nothing >"$COPPICE_USAGE"`, 30},
		{aidefile.FromOutput, `echo 7 >"$COPPICE_USAGE"`, 30},
		{aidefile.FromFile, `echo 7 >"$COPPICE_USAGE"`, 7},
		{aidefile.FromFile, `true`, 0},
		{aidefile.FromFile, `ln -s /dev/zero "$COPPICE_USAGE"`, 0},
		{aidefile.FromFile, `mkfifo "$COPPICE_USAGE"`, 0},
		{aidefile.FromNowhere, `echo 7 >"$COPPICE_USAGE"`, 0},
	} {
		b := newHarness(t, "", `echo '{"usage":{"output_tokens":30}}'; `+c.script)
		b.request.Settings.Usage = c.source
		if b.run(context.Background(), aidefile.Succeeded, ""); b.meter.Used() != c.tokens {
			t.Errorf("%v, %s: %d tokens, expected %d", c.source, c.script, b.meter.Used(), c.tokens)
		}
	}
}
