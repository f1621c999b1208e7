package test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task"
)

// A task that makes its agents fail is parked, across killed daemons, until a person retries it. It
// states why and how.
func TestPoisonTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[daemon]\nmax_restarts = 0\nmax_claims = 2\n\n",
		agentTOML("coder", `coppice agent task claim -q --wait; exit 7`))
	f.do("up", "-d")
	id := f.add("bad thing", "--pool", "coder", "--max-claims", "4")
	parked := func() {
		t.Helper()
		eventually(t, "that it is parked", func() bool { return f.task(id).Status == task.Parked })
	}
	eventually(t, "a claim", func() bool { return f.task(id).FailedClaims > 0 })
	f.crash()
	f.up()
	parked()
	const why = "claimed 4 times without a result, last: t/coder: exit code 7"
	for _, tt := range []struct{ command, want string }{
		{"task show " + id, why}, {"task show " + id, "coppice task retry " + id},
		{"task ls", "parked"}, {"task ls", why}, {"task ls --status parked", id},
		{"status", "1 task parked"}, {"status", "coppice task ls --status parked"},
	} {
		if out := f.do(strings.Fields(tt.command)...); !strings.Contains(out, tt.want) {
			t.Errorf("%s does not say %q:\n%s", tt.command, tt.want, out)
		}
	}
	var st status.Status
	if err := json.Unmarshal([]byte(f.do("status", "--json")), &st); err != nil || st.Inbox.Parked != 1 {
		t.Errorf("%+v, %v", st.Inbox, err)
	}
	if all := f.events(event.TaskParked, "t/coder"); len(all) != 1 || !strings.Contains(all[0].Message, why) {
		t.Errorf("%+v", all)
	}
	if got := f.task(id); got.Claims != 4 {
		t.Errorf("%+v", got)
	}
	f.do("task", "edit", id, "--max-claims", "0")
	f.do("task", "retry", id)
	parked() // its count of failed claims starts over
	if got := f.task(id); got.FailedClaims != 2 || got.Claims != 6 {
		t.Errorf("%+v", got)
	}
	f.do("task", "close", id, "--outcome", "cancelled")
	if out := f.do("status"); strings.Contains(out, "parked") {
		t.Errorf("%s", out)
	}
}

// Stops by people and the daemon do not count as failures.
func TestStopsDoNotPark(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[daemon]\nmax_claims = 1\n\n", tokenKeeperTOML("a"))
	f.do("up", "-d")
	id := f.add("long", "--pool", "a")
	life := 1
	for _, how := range [][]string{{"stop", "a"}, {"restart", "a"}, {"drain", "a", "--timeout", "10ms"}, {"down"}} {
		f.wantAgentCode(0, "a", life, "task", "claim", id)
		f.do(how...)
		switch how[0] {
		case "stop", "drain":
			f.do("start", "a")
		case "down":
			f.do("up", "-d")
		}
		life++
		f.token("a", life)
		eventually(t, "that it is open again", func() bool { return f.task(id).Ready })
	}
	f.wantAgentCode(0, "a", life, "task", "claim", id)
	f.rewrite("[daemon]\nmax_claims = 1\n\n", strings.Replace(tokenKeeperTOML("a"), "sleep 1000", "sleep 1001", 1))
	f.do("reload")
	life++
	f.token("a", life)
	eventually(t, "that it is open again", func() bool { return f.task(id).Ready })
	if got := f.task(id); got.FailedClaims != 0 || got.Claims != life-1 {
		t.Errorf("%+v", got)
	}
	f.wantAgentCode(0, "a", life, "task", "claim", id)
	exectest.Signal(t, -f.node("t/a").PID, syscall.SIGSEGV)
	eventually(t, "that it is parked", func() bool { return f.task(id).Status == task.Parked })
	if got := f.task(id).Reason; got != "claimed once without a result, last: t/a: ended by SIGSEGV" {
		t.Errorf("%s", got)
	}
}
