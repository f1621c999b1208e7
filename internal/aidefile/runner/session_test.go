package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// program has the run call a program that has the name of a command line. It can call these functions of a shell:
//
//	begin ID            begin a session, in a file where codex or copilot keeps it
//	used MESSAGE N      write to the file that a message has used N tokens
//	limit               write to the file that the usage limit is reached
func (b *harness) program(cli, script string) {
	b.t.Helper()
	functions := map[string]string{
		"codex": `
now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
begin() {
	dir=$HOME/.codex/sessions/$(date +%Y/%m/%d); mkdir -p $dir; file=$dir/rollout-2026-11-28T00-00-00-$1.jsonl
	echo '{"type":"thread.started","thread_id":"'$1'"}'
	echo '{"timestamp":"'$(now)'","type":"session_meta","payload":{"id":"'$1'","session_id":"'$1'","timestamp":"'$(now)'","cwd":"'$PWD'"}}' >>$file
}
used() { echo '{"timestamp":"'$(now)'","type":"token_usage_record","payload":{"response_id":"'$1'","usage":{"output_tokens":'$2'}}}' >>$file; }
limit() { echo '{"timestamp":"'$(now)'","type":"event_msg","payload":{"type":"task_complete","error":{"message":"no more","codex_error_info":"usage_limit_exceeded"}}}' >>$file; }
`,
		"copilot": `
now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
begin() {
	dir=$HOME/.copilot/session-state/$1; mkdir -p $dir; file=$dir/events.jsonl
	echo '{"type":"session.start","id":"e","data":{"sessionId":"'$1'","startTime":"'$(now)'","context":{"cwd":"'$PWD'"}}}' >>$file
	echo '{"type":"session.skills_loaded","parentId":"e","timestamp":"'$(now)'"}'
}
used() { echo '{"timestamp":"'$(now)'","type":"session.usage_record","data":{"usage":{"outputTokens":'$2',"apiCallId":"'$1'"}}}' >>$file; }
`,
	}[cli]
	program := filepath.Join(b.dir, cli)
	exectest.Write(b.t, program, "#!/bin/sh\n"+functions+script)
	b.request.Settings.Command = []string{program}
}

const sessionID = "01a2200f-2b0d-7290-a8af-7216c039fa2a"

// What command lines write only into the file of their session counts, and says why they have failed.
func TestSessionFile(t *testing.T) {
	for _, c := range []struct {
		name, cli, script string
		result            aidefile.Result
		reason            string
		tokens            int64
	}{
		{
			"codex fails and reports no tokens", "codex",
			"used a 40; used b 2\necho '{\"type\":\"turn.failed\",\"error\":{\"message\":\"failed\"}}'; exit 1",
			aidefile.Failed, "failed (42 tokens)", 42,
		},
		{
			"codex reports the total of its session", "codex",
			"used a 40\necho '{\"type\":\"turn.completed\",\"usage\":{\"output_tokens\":1000}}'",
			aidefile.Succeeded, "success (40 tokens)", 40,
		},
		{
			"codex at its limit", "codex", "used a 40; limit; exit 1",
			aidefile.Deferred, "usage limit: no more (40 tokens)", 40,
		},
		{
			"codex is killed", "codex", "used a 40; kill -9 $$",
			aidefile.Failed, "SIGKILL (40 tokens)", 40,
		},
		{
			"copilot, which reports its session at its end", "copilot",
			"used a 40\necho '{\"type\":\"result\",\"sessionId\":\"" + sessionID + "\",\"exitCode\":0}'",
			aidefile.Succeeded, "success (40 tokens)", 40,
		},
		{
			"copilot goes over its budget", "copilot",
			"used a 40; used b 70\nsleep 1000",
			aidefile.BudgetExhausted, "110 tokens are used, of 100", 110,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newHarness(t, "[budget]\ntokens = 100\nmax_retries = 0\n", "")
			b.program(c.cli, "begin "+sessionID+"\n"+c.script)
			if b.run(context.Background(), c.result, c.reason); b.meter.Used() != c.tokens {
				t.Errorf("%d tokens, expected %d", b.meter.Used(), c.tokens)
			}
			last := b.records.Records().Calls[len(b.records.Records().Calls)-1]
			if last.UsageFrom != agentcli.FromSession || *last.Tokens != c.tokens || last.Session != sessionID {
				t.Errorf("%+v", last)
			}
		})
	}
}

// codex goes on with a tool after it is over its budget: it is killed before it calls the model once more.
func TestSessionFileOverspentAtOnce(t *testing.T) {
	b := newHarness(t, "[budget]\ntokens = 100\n", "")
	b.program("codex", "trap '' TERM\nbegin "+sessionID+`
for i in $(seq 1000); do
	used m$i 60
	echo '{"type":"item.started","item":{"id":"i'$i'","type":"command_execution","status":"in_progress"}}'
	sleep 0.2
	echo '{"type":"item.completed","item":{"id":"i'$i'","type":"command_execution","status":"completed"}}'
done`)
	b.run(context.Background(), aidefile.BudgetExhausted, "120 tokens are used, of 100 (120 tokens)")
	if all := b.records.Records().Calls; len(all) != 1 || all[0].Obstacle != outcome.Budget {
		t.Errorf("%+v", all)
	}
}

// A model is not silent while it writes into the file of its session.
func TestSessionFileIsLife(t *testing.T) {
	b := newHarness(t, "[budget]\nsilence = \"1s\"\nmax_retries = 0\n", "")
	b.program("codex", "begin "+sessionID+`
for i in $(seq 8); do used m$i 1; sleep 0.3; done
echo '{"type":"turn.completed","usage":{"output_tokens":8}}'`)
	b.run(context.Background(), aidefile.Succeeded, "success (8 tokens)")
}

// Tokens that are not reported are unknown, not 0, wherever they are shown.
func TestUnknownTokens(t *testing.T) {
	b := newHarness(t, "[budget]\nmax_retries = 2\n", `test $COPPICE_TRY = 1 && exit 1; echo '{"usage":{"output_tokens":30}}'; test $COPPICE_TRY = 3`)
	b.run(context.Background(), aidefile.Succeeded, "success (at least 60 tokens)")
	told := strings.Join(b.told, "\n")
	for _, part := range []string{"try 1 of 3, 200000 tokens left", "try 2 of 3, at most 200000 tokens left", "try 3 of 3, at most 199970 tokens left"} {
		if !strings.Contains(told, part) {
			t.Errorf("not told: %s\n%s", part, told)
		}
	}
	summary, err := os.ReadFile(filepath.Join(b.Runner.dir, summaryName))
	if err != nil || !strings.Contains(string(summary), "\nTOKENS: at least 60/200000\n") {
		t.Errorf("%s, %v", summary, err)
	}
	for _, source := range []aidefile.Source{aidefile.AnySource, aidefile.FromOutput, aidefile.FromFile, aidefile.FromNowhere} {
		b := newHarness(t, "", "true")
		b.request.Settings.Usage = source
		b.run(context.Background(), aidefile.Succeeded, "success (unknown tokens)")
		if b.records.Records().Calls[0].Tokens != nil || !b.meter.Unknown() {
			t.Errorf("%v: %+v", source, b.records.Records().Calls[0])
		}
	}
}

// The record of a call has what the project says counts.
func TestRecordsOfUsage(t *testing.T) {
	for _, c := range []struct {
		source aidefile.Source
		from   agentcli.Source
		tokens string
	}{
		{aidefile.AnySource, agentcli.FromFile, "7"}, {aidefile.FromFile, agentcli.FromFile, "7"},
		{aidefile.FromOutput, agentcli.FromStream, "30"}, {aidefile.FromNowhere, "", "unknown"},
	} {
		b := newHarness(t, "", `echo 7 >"$COPPICE_USAGE"; echo '{"usage":{"output_tokens":30}}'`)
		b.request.Settings.Usage = c.source
		b.run(context.Background(), aidefile.Succeeded, "success")
		record, tokens := b.records.Records().Calls[0], "unknown"
		if record.Tokens != nil {
			tokens = fmt.Sprint(*record.Tokens)
		}
		if tokens != c.tokens || record.UsageFrom != c.from || b.meter.UsedText() != c.tokens {
			t.Errorf("%v: %s from the %s, %s counted", c.source, tokens, record.UsageFrom, b.meter.UsedText())
		}
	}
}
