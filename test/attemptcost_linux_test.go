package test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/task"
)

// Each attempt at a task shows what it has used. What an incarnation has used that has made two attempts is known of
// neither.
func TestCostOfAttempts(t *testing.T) {
	t.Parallel()
	const agent = "[[agent]]\nname = %q\ncommand = [\"./work.sh\", %q]\ncli = \"claude\"\nrestart = \"never\"\n"
	var agents strings.Builder
	for _, name := range []string{"one", "two", "both", "last"} {
		fmt.Fprintf(&agents, agent, name, name)
	}
	r := newFakeRun(t, agents.String(), agentTOML("stays", "exec sleep 1000"))
	// Each agent gives the task to the next one.
	exectest.Write(t, filepath.Join(r.dir, "work.sh"), `#!/bin/sh
set -e
claim() { id=$(coppice agent task claim -q --wait); }
fail() { coppice agent outcome retryable --approach "$1" --obstacle "it fails"; }
pass() { coppice agent task edit "$id" --assignee "$1" && coppice agent task retry "$id"; } # without a pause
claim
claude -p --output-format stream-json --verbose x
case $1 in
one) fail one && pass two ;;
two) fail two && pass both ;;
both) fail both && pass both && claim && fail again && pass last ;;
last) coppice agent outcome completed --summary done ;;
esac >/dev/null
`)
	run := r.run("--fake", "t/one:ok,t/two:tool,ok,pace=10ms")
	run.out.awaitText(t, "t * started\n")
	id := strings.TrimSpace(r.do("task", "add", "x", "--assignee", "one", "--max-claims", "10"))
	var d task.Detail
	eventually(t, "the use of the last attempt", func() bool {
		d = r.detail(id)
		return len(d.Attempts) == 5 && d.Attempts[4].Used != nil
	})
	for i, messages := range []int64{1, 2, 0, 0, 1} {
		a := d.Attempts[i]
		if messages == 0 {
			if a.Used != nil {
				t.Errorf("attempt %d of an incarnation with two: %+v", a.Number, a.Used)
			}
			continue
		}
		u := a.Used
		if u == nil || u.Calls != 1 || u.Tokens == nil || *u.Tokens != messages*fakeagent.MessageTokens ||
			u.Dollars == nil || *u.Dollars <= 0 {
			t.Errorf("attempt %d by %s: %+v, expected %d messages", a.Number, a.By, u, messages)
		}
	}
	text := r.do("task", "show", id)
	for _, part := range []string{"TOKENS", "DOLLARS  OUTCOME", "unknown  unknown", "completed: done"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	run.signal(syscall.SIGTERM)
	run.exit()
}
