package test

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/task"
)

var longMidnight = flag.Bool("midnight.long", false, "with 100 agents and 300 tasks")

// The plan of an account is used up while many agents work through a list of tasks: no task has failed, no restart is
// counted, people are told once and asked nothing, one agent tries first after the reset, and then all tasks are done.
func TestQuotaAtMidnight(t *testing.T) {
	t.Parallel()
	agents, tasks, plan := 20, 60, "quota@3s+10s,pace=2s"
	if *longMidnight {
		agents, tasks, plan = 100, 300, "quota@35s+55s,pace=20s"
	}
	r := newFakeRun(t)
	exectest.Write(t, filepath.Join(r.dir, "coder.sh"), `#!/bin/sh
while ! coppice agent drain-check; do
	id=$(coppice agent task claim -q --wait) || exit 0
	coppice agent task show "$id" | claude -p --output-format stream-json --verbose || exit 1
	coppice agent task close "$id" || exit 1
done
coppice agent drain-ack
`)
	write(t, filepath.Join(r.dir, "coppice.toml"), fmt.Sprintf(`[project]
name = "t"
[daemon]
patrol_interval = "1s"
max_claims = 1
[[agent]]
name = "keeper"
command = "sleep 1000000"
[[agent]]
name = "coder"
command = "./coder.sh"
cli = "claude"
restart = "on-failure"
max_restarts = 1
[agent.pool]
min = %[1]d
max = %[1]d
`, agents))
	run := r.run("--fake", plan)
	run.out.awaitText(t, "t * started\n")
	for i := range tasks {
		r.add(fmt.Sprintf("task %d", i), "--pool", "coder")
	}
	for n, last := 0, uint64(0); n < tasks; n++ {
		last = r.awaitEvent(event.TaskClosed, "", last).Seq
	}
	all, err := task.List.Call(t.Context(), r.client(), task.ListRequest{Filter: task.Filter{All: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if x.Status != task.Closed || x.FailedClaims > 0 {
			t.Errorf("%+v", x)
		}
	}
	for typ, expected := range map[event.Type]int{
		event.QuotaParked: 1, event.QuotaProbing: 1, event.QuotaOpened: 1, event.AgentCrashed: 0, event.AgentQuarantined: 0,
	} {
		if got := r.eventsOf("--type", string(typ)); len(got) != expected {
			t.Errorf("%d events %s, expected %d: %v", len(got), typ, expected, got)
		}
	}
	waited := r.eventsOf("--type", string(event.AgentWaiting))
	if len(waited) == 0 || len(waited) > 2*agents {
		t.Errorf("%d agents have waited", len(waited))
	}
	var inbox struct {
		Questions []json.RawMessage
		Mail      []mail.Message
	}
	if err := json.Unmarshal([]byte(r.do("inbox", "--json")), &inbox); err != nil {
		t.Fatal(err)
	}
	if len(inbox.Questions) != 0 || len(inbox.Mail) != 1 ||
		!strings.HasPrefix(inbox.Mail[0].Subject, "claude is used up until ") {
		t.Errorf("people are told: %+v", inbox)
	}
	run.signal(syscall.SIGTERM)
	run.exit()
}
