package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// Lines of a script that speaks the Agent Client Protocol. The IDs of the requests are 1, 2 and 3.
const (
	acpBegins = `hear() { read -r line && printf '%s\n' "$line" >>heard; }
says() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
update() { says '"method":"session/update","params":{"sessionId":"s1","update":{'"$1"'}}'; }
printf x >>calls
hear; says '"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}'
hear; says '"id":2,"result":{"sessionId":"s1"}'
hear
`
	acpTool = `update '"sessionUpdate":"tool_call","toolCallId":"c","title":"make","kind":"execute"'
options='{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}'
asks='"id":7,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c"}'
says "$asks,\"options\":[$options]}"
hear
`
	acpSays = `update '"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"all "}'
update '"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"well"}'
`
	acpUsage = `"usage":{"totalTokens":30,"inputTokens":20,"outputTokens":10}`
	acpEnds  = `says '"id":3,"result":{"stopReason":"end_turn",` + acpUsage + `}'
`
	acpRests = "read -r line || exit 0\n" // until its input ends
)

// acpHarness is a harness whose command speaks the Agent Client Protocol.
func acpHarness(t *testing.T, file, script string) *harness {
	b := newHarness(t, file, acpBegins+script)
	b.request.Settings.CLI = agentcli.ACP
	return b
}

// A run talks to an agent. What it says and does is the log, and its tokens count.
func TestTalk(t *testing.T) {
	b := acpHarness(t, "", acpSays+acpEnds+acpRests)
	b.run(context.Background(), aidefile.Succeeded, "success (30 tokens)")
	if !strings.Contains(b.out.String(), "all well\n") {
		t.Errorf("the log is\n%s", b.out.String())
	}
	heard := b.read("heard")
	for _, part := range []string{
		`"method":"session/new"`, `"cwd":"` + b.dir + `"`, `"mcpServers":[]`, `# Task\n\ndo it\n`, "aide-summary",
	} {
		if !strings.Contains(heard, part) {
			t.Errorf("no %s in what the agent was told:\n%s", part, heard)
		}
	}
	record := b.records.Records().Calls[0]
	if record.CLI != agentcli.ACP || record.Session != "s1" || record.UsageFrom != agentcli.FromStream {
		t.Errorf("%+v", record)
	}
	summary, err := os.ReadFile(filepath.Join(b.Runner.dir, summaryName))
	if err != nil || !strings.Contains(string(summary), "all well") {
		t.Errorf("%s, %v", summary, err)
	}
}

// What the Aidefile does not allow is refused, and a run in which nothing was allowed has failed.
func TestTalkPermission(t *testing.T) {
	const used = "update '\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c\",\"status\":\"completed\"'\n"
	b := acpHarness(t, "[acp]\nallow = [\"execute\"]\n", acpTool+used+acpEnds)
	b.run(context.Background(), aidefile.Succeeded, "success")
	if heard := b.read("heard"); !strings.Contains(heard, `"optionId":"yes"`) {
		t.Error(heard)
	}
	b = acpHarness(t, "[budget]\nmax_retries = 0\n", acpTool+acpEnds)
	b.run(context.Background(), aidefile.Failed, "permission denied: every tool that it called was denied")
	if heard := b.read("heard"); !strings.Contains(heard, `"optionId":"no"`) {
		t.Error(heard)
	}
	if said := b.out.String(); !strings.Contains(said, `aide: not allowed: "make", of the kind execute; see [acp]`) {
		t.Error(said)
	}
	if record := b.records.Records().Calls[0]; record.Denied != 1 || record.Obstacle != outcome.PermissionDenied {
		t.Errorf("%+v", record)
	}
}

// coppice mcp is given along, and its token is in a file of this user, and in no message.
func TestTalkServer(t *testing.T) {
	b := acpHarness(t, "", "cp \"$TOKEN_FILE\" kept; stat -c %a \"$TOKEN_FILE\" >mode\n"+acpEnds)
	file := filepath.Join(b.Runner.dir, tokenName)
	b.env["COPPICE_SOCKET"], b.env["COPPICE_TOKEN"], b.env["TOKEN_FILE"] = "/run/socket", "sesame-1234", file
	b.run(context.Background(), aidefile.Succeeded, "success")
	heard := b.read("heard")
	if !strings.Contains(heard, `"args":["mcp","--token-file","`+file+`"]`) || strings.Contains(heard, "sesame") {
		t.Error(heard)
	}
	if b.read("kept") != "sesame-1234" || b.read("mode") != "600\n" {
		t.Errorf("%q with mode %s", b.read("kept"), b.read("mode"))
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file with the token is left: %v", err)
	}
}

// The next try continues the session, if the agent can; its prompt is another one.
func TestTalkContinues(t *testing.T) {
	const fails = `if [ "$COPPICE_TRY" = 1 ]; then
says '"id":3,"error":{"code":503,"message":"no"}'
exec cat >/dev/null
fi
`
	b := acpHarness(t, "", acpSays+fails+acpEnds)
	b.request.Settings.Base = 1
	b.run(context.Background(), aidefile.Succeeded, "success")
	b.calls(2)
	heard := b.read("heard")
	if !strings.Contains(heard, `"method":"session/load","params":{"sessionId":"s1"`) ||
		!strings.Contains(heard, `# Go on\n\nYour work was interrupted: it ended with 0, and has failed: overloaded: no`) {
		t.Error(heard)
	}
	b = acpHarness(t, "", acpSays+fails+acpEnds)
	b.request.Settings.Base = 1
	script := b.request.Settings.Command[2]
	b.request.Settings.Command[2] = strings.Replace(script, `"loadSession":true`, `"loadSession":false`, 1)
	b.run(context.Background(), aidefile.Succeeded, "success")
	if heard := b.read("heard"); strings.Count(heard, "session/new") != 2 || strings.Count(heard, `# Task\n`) != 2 {
		t.Error(heard)
	}
}

// However an agent fails, the run ends, and says why.
func TestTalkFails(t *testing.T) {
	once := "[budget]\nmax_retries = 0\n"
	for name, c := range map[string]struct {
		script string
		result aidefile.Result
		reason string
	}{
		"no agent": {"echo usage: thing; exit 2", aidefile.Failed,
			`initialize: the agent has ended: exit code 2 (its output begins with "usage: thing")`},
		"ends at once": {"exit 0", aidefile.Failed, "initialize: the agent has ended"},
		"another agent": {`read x; echo '{"id":1,"result":{"protocolVersion":2}}'; cat`, aidefile.Failed,
			"the agent speaks version 2 of ACP, expected 1"},
		"in the middle": {acpBegins + acpSays + "exit 3", aidefile.Failed,
			"session/prompt: the agent has ended: exit code 3"},
		"killed": {acpBegins + "kill -9 $$", aidefile.Failed,
			"session/prompt: the agent has ended: killed: ended by SIGKILL"},
		"no login": {acpBegins + `says '"id":3,"error":{"code":-32000,"message":"Authentication required"}'` + "\n",
			aidefile.Deferred, "authentication: Authentication required"},
		"a huge line": {acpBegins + "head -c 17000000 /dev/zero | tr '\\0' x; cat", aidefile.Failed,
			"the agent has written a line of more than 16 MiB"},
		"no end":     {acpBegins + acpEnds + "exec sleep 1000", aidefile.Succeeded, "success (30 tokens)"},
		"no command": {"", aidefile.Faulty, "does-not-exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, once, c.script)
			b.request.Settings.CLI = agentcli.ACP
			if c.script == "" {
				b.request.Settings.Command = []string{"./does-not-exist"}
			}
			b.run(context.Background(), c.result, c.reason)
		})
	}
}

// An agent is told to cancel before it gets a signal, and what it has used until then counts.
func TestTalkStop(t *testing.T) {
	const cancelled = `says '"id":3,"result":{"stopReason":"cancelled",` + acpUsage + `}'
`
	b := acpHarness(t, "", "echo >begun\nhear\n"+cancelled)
	if err := syscall.Mkfifo(filepath.Join(b.dir, "begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		os.ReadFile(filepath.Join(b.dir, "begun")) // waits for the script
		cancel(&stopped{syscall.SIGTERM})
	}()
	b.run(ctx, aidefile.Failed, "stopped (30 tokens)")
	if heard := b.read("heard"); !strings.Contains(heard, `"method":"session/cancel"`) {
		t.Error(heard)
	}
	if r := b.records.Records().Calls[0]; r.Obstacle != outcome.OtherObstacle {
		t.Errorf("%+v", r)
	}
}

// The budget and the limit of silence hold as for other command lines.
func TestTalkBounds(t *testing.T) {
	const spends = `update '"sessionUpdate":"tool_call","toolCallId":"c","title":"make"'
echo 11 >"$COPPICE_USAGE"; cat
`
	b := acpHarness(t, "[budget]\ntokens = \"10\"\n", spends)
	b.run(context.Background(), aidefile.BudgetExhausted, "budget exhausted: 11 tokens are used, of 10")
	b.calls(1)
	b = acpHarness(t, "[budget]\nsilence = \"50ms\"\nmax_retries = 0\n", acpSays+"cat")
	began := time.Now()
	b.run(context.Background(), aidefile.Failed, "timeout: the model was silent for too long")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
