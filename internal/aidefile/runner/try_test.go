package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestPauseAfter(t *testing.T) {
	linear := aidefile.Policy{Backoff: supervisor.Linear}
	for _, c := range []struct {
		of     outcome.ObstacleKind
		base   time.Duration
		policy aidefile.Policy
		pauses [6]string
	}{
		{outcome.Crash, time.Second, aidefile.Single(), [6]string{"1s", "2s", "4s", "8s", "16s", "32s"}},
		{outcome.Timeout, time.Second, linear, [6]string{"1s", "2s", "3s", "4s", "5s", "6s"}},
		{outcome.RateLimit, time.Second, aidefile.Single(), [6]string{"30s", "1m0s", "2m0s", "4m0s", "5m0s", "5m0s"}},
		{outcome.Overloaded, 0, linear, [6]string{"30s", "1m0s", "2m0s", "4m0s", "5m0s", "5m0s"}},
		{outcome.Network, time.Millisecond, linear, [6]string{"30ms", "60ms", "120ms", "240ms", "480ms", "960ms"}},
		{outcome.Network, time.Hour, linear, [6]string{"5m0s", "5m0s", "5m0s", "5m0s", "5m0s", "5m0s"}},
		{outcome.ContextFull, time.Second, linear, [6]string{"1s", "2s", "3s", "4s", "5s", "6s"}},
	} {
		for n, expected := range c.pauses {
			if got := pauseAfter(n, c.of, c.base, c.policy); got.String() != expected {
				t.Errorf("%s, base %v, pause %d: %v, expected %s", c.of, c.base, n, got, expected)
			}
		}
	}
}

// fails are results of claude after it has done something, by their obstacle.
var fails = map[string]string{
	"overloaded": `{"type":"result","subtype":"success","is_error":true,"session_id":"%s","api_error":"overloaded","result":"529"}`,
	"context":    `{"type":"result","subtype":"success","is_error":true,"session_id":"%s","terminal_reason":"prompt_too_long","result":"too long"}`,
}

// The next try continues the session of the last one if it can, with a few words; else it has the whole task, and what
// the last one has said.
func TestContinuedTries(t *testing.T) {
	const (
		begins = `{"type":"system","subtype":"init","session_id":"%s"}`
		says   = `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"half of it is done"}],"usage":{"output_tokens":5}}}`
	)
	for _, c := range []struct {
		name, options, ends string
		session             string
		silent              bool
		continues           bool
	}{
		{"overloaded", "-p", "overloaded", "session-1", false, true},
		{"with the prompt as an argument", "-p -- {task}", "overloaded", "session-1", false, true},
		{"a crash", "-p", "", "session-1", false, true},
		{"a full context", "-p", "context", "session-1", false, false},
		{"nothing was done", "-p", "overloaded", "session-1", true, false},
		{"no session", "-p", "", "", false, false},
		{"a session that is an option", "-p", "overloaded", "--evil", false, false},
		{"a command that continues its session itself", "-p --continue", "overloaded", "session-1", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newHarness(t, "[budget]\nmax_retries = 1\n", "")
			lines := fmt.Sprintf(begins, c.session)
			if !c.silent {
				lines += "\n" + says
			}
			if c.ends != "" {
				lines += "\n" + fmt.Sprintf(fails[c.ends], c.session)
			}
			b.claudeProgram(`echo "$@" >args$COPPICE_TRY; cat >stdin$COPPICE_TRY; cat said; exit 1`)
			b.write("said", lines+"\n")
			b.request.Settings.Command = append(b.request.Settings.Command, strings.Fields(c.options)...)
			b.run(context.Background(), aidefile.BudgetExhausted, "all 2 tries")
			args, stdin := strings.TrimSpace(b.read("args2")), b.read("stdin2")
			reason := map[string]string{"overloaded": "529", "context": "too long", "": "exit code 1"}[c.ends]
			if got := strings.HasPrefix(args, "--resume "+c.session+" -p"); got != c.continues {
				t.Errorf("called with %s", args)
			}
			if strings.Contains(stdin, "# Task") == c.continues || strings.Contains(stdin, "# Go on") != c.continues ||
				!strings.Contains(stdin, reason) || !strings.Contains(stdin, "<aide-summary>") {
				t.Errorf("prompt:\n%s", stdin)
			}
			if !c.continues && !c.silent && !strings.Contains(stdin, "half of it is done") {
				t.Errorf("without what the last one has said:\n%s", stdin)
			}
			if strings.Contains(c.options, "{task}") && !strings.Contains(args, "-p -- # Go on") {
				t.Errorf("called with %s", args)
			}
			if first := b.read("stdin1"); !strings.Contains(first, "# Task") || stdin == first {
				t.Errorf("the first prompt:\n%s", first)
			}
		})
	}
}

// What a session has used counts once, however often it is continued. A try that continues a session in vain is
// followed by a fresh one, which is told what was said before.
func TestContinuedTokens(t *testing.T) {
	b := newHarness(t, "[budget]\nmax_retries = 3\n", "")
	b.claudeProgram(`echo "$@" >args$COPPICE_TRY; cat >stdin$COPPICE_TRY
echo '{"type":"system","subtype":"init","session_id":"s'$(test $COPPICE_TRY = 4 && echo 4)'"}'
case $COPPICE_TRY in
1) echo '{"type":"assistant","message":{"content":[{"type":"text","text":"a part"}]}}'
   echo '{"type":"result","is_error":true,"session_id":"s","api_error":"overloaded","modelUsage":{"m":{"outputTokens":10}}}' ;;
2) echo '{"type":"result","is_error":true,"session_id":"s","api_error":"overloaded","modelUsage":{"m":{"outputTokens":25}}}' ;;
3) echo '{"type":"result","is_error":true,"session_id":"s","api_error":"overloaded"}' ;;
4) echo '{"type":"result","subtype":"success","session_id":"s4","result":"done","modelUsage":{"m":{"outputTokens":7}}}' ;;
esac`)
	b.request.Settings.Command = append(b.request.Settings.Command, "-p")
	b.run(context.Background(), aidefile.Succeeded, "success (at least 32 tokens)")
	for try, continues := range map[int]bool{2: true, 3: true, 4: false} {
		if args := b.read(fmt.Sprint("args", try)); strings.Contains(args, "--resume s ") != continues {
			t.Errorf("try %d is called with %s", try, args)
		}
	}
	if !strings.Contains(b.read("stdin4"), "a part") {
		t.Errorf("the last prompt:\n%s", b.read("stdin4"))
	}
}

// The hand-over is bounded, without secrets, and whole characters.
func TestHandOver(t *testing.T) {
	b := newHarness(t, "[budget]\nmax_retries = 1\n[vault]\nkeys = [\"A_KEY\"]\n", "cat >stdin; cat said; exit 1")
	b.env["A_KEY"] = "sesame-1234"
	b.write("said", strings.Repeat("ä", 10_000)+"sesame-1234 end")
	b.run(context.Background(), aidefile.BudgetExhausted, "all 2 tries")
	if got := b.read("stdin"); len(got) > maxAnswer+2000 || !strings.Contains(got, "[cut] ä") ||
		!strings.Contains(got, "ä[A_KEY] end") {
		t.Errorf("%d bytes: %s", len(got), got[max(0, len(got)-3000):])
	}
	if _, err := os.Stat(filepath.Join(b.Runner.dir, promptName)); err != nil {
		t.Error(err)
	}
}
