package test

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
)

// block ends an attempt of the agent a at a task that it claims, which waits for a condition then.
func (f *fleet) block(id, until string) {
	f.t.Helper()
	f.wantAgentCode(0, "a", 1, "task", "claim", id)
	f.wantAgentCode(0, "a", 1, "outcome", "blocked", "--task", id, "--approach", "x", "--obstacle", "y", "--until",
		until)
}

// A task that waits for an event is open when one has come after the attempt, also while no daemon ran.
func TestBlockedUntilEvent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	id, start := f.add("The login", "--pool", "a"), f.add("The logout", "--pool", "a")
	for range 2 {
		f.do("task", "close", f.add("before"))
	}
	f.wantAgentCode(0, "a", 1, "task", "claim", id)
	out := f.wantAgentCode(exitUsage, "a", 1, "outcome", "blocked", "--approach", "x", "--obstacle", "y", "--until",
		"event=task.close")
	if !strings.Contains(out, `there is no event type "task.close"; did you mean "task.closed"?`) {
		t.Errorf("%s", out)
	}
	f.wantAgentCode(0, "a", 1, "outcome", "blocked", "--approach", "x", "--obstacle", "y", "--until",
		"event=task.closed")
	f.block(start, "event=controller.started")
	for _, id := range []string{id, start} {
		if got := f.task(id); got.Status != task.Blocked || got.Question != nil || got.BlockedAt.IsZero() {
			t.Errorf("%+v", got)
		}
	}
	f.crash()
	f.do("up", "-d")
	eventually(t, "the event of the daemon opens the task", func() bool { return f.task(start).Status != task.Blocked })
	if got := f.task(id); got.Status != task.Blocked {
		t.Errorf("%+v", got)
	}
	eventually(t, "the wait is shown", func() bool {
		return strings.Contains(f.do("status"), "1 task until the event: task.closed; since ")
	})
	f.do("task", "close", f.add("after"))
	eventually(t, "the event opens the task", func() bool { return f.task(id).Ready })
	shown := f.do("task", "show", id)
	if !strings.Contains(shown, "the event task.closed has come, number ") || len(f.questions()) > 0 {
		t.Errorf("%s", shown)
	}
}
