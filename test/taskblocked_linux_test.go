package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
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

// serviceTOML declares a service with a check that counts its runs, and which succeeds while a file exists.
func serviceTOML(name string) string {
	return fmt.Sprintf("[[service]]\nname = %q\ncheck = \"echo x >>runs; echo it is down; test -e up\"\n"+
		"interval = \"50ms\"\n", name)
}

// Tasks that wait for a service of the file are opened by its check, which runs once for all of them. Without a
// check a person is asked.
func TestBlockedUntilService(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"), serviceTOML("registry"))
	f.do("up", "-d")
	var ids []string
	for range 5 {
		ids = append(ids, f.add("x", "--pool", "a"))
	}
	f.block(ids[0], "service=Registry")
	for _, id := range ids[1:] {
		f.do("task", "block", id, "--until", "service=registry", "--reason", "it is down")
	}
	eventually(t, "the checks are shown", func() bool {
		return strings.Contains(f.do("status"), "5 tasks until the service: ") &&
			strings.Contains(f.do("task", "show", ids[0]), "exit code 1: it is down; ")
	})
	f.crash()
	f.do("up", "-d")
	if all := f.questions(); len(all) > 0 || f.task(ids[4]).Status != task.Blocked {
		t.Errorf("%+v", all)
	}
	write(t, filepath.Join(f.dir, "up"), "")
	eventually(t, "the check opens the tasks", func() bool {
		for _, id := range ids {
			if f.task(id).Status == task.Blocked {
				return false
			}
		}
		return true
	})
	if got := f.task(ids[1]); got.Reason != "the check of the service registry has succeeded" || got.Condition != nil {
		t.Errorf("%+v", got)
	}

	if err := os.Remove(filepath.Join(f.dir, "up")); err != nil {
		t.Fatal(err)
	}
	f.do("task", "block", ids[1], "--until", "service=registry")
	f.do("task", "block", ids[2], "--until", "service=other")
	if q := f.openQuestion(); !strings.Contains(q.Text, "Does this work again: other?") {
		t.Errorf("%+v", q)
	}
	f.do("task", "close", ids[2], "--outcome", "cancelled")
	whole, err := os.ReadFile(filepath.Join(f.dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	f.replaceFile("coppice.toml", strings.Replace(string(whole), serviceTOML("registry"), "", 1))
	eventually(t, "a person is asked when the check is gone", func() bool { return f.task(ids[1]).Question != nil })
	f.replaceFile("coppice.toml", string(whole))
	write(t, filepath.Join(f.dir, "up"), "")
	eventually(t, "a new check opens the task", func() bool { return f.task(ids[1]).Status == task.Open })
	eventually(t, "the question is withdrawn", func() bool { return len(f.questions()) == 0 })
}

// People may let a task wait for a command, and agents may not.
func TestBlockedUntilCommand(t *testing.T) {
	t.Parallel()
	f := newShellFleet(t, t.TempDir(), map[string]string{"a": ""})
	id := f.add("x", "--pool", "a")
	for _, command := range []string{
		"coppice task block " + id + " --until command=true",
		"env -u COPPICE_TOKEN coppice task block " + id + " --until command=true",
	} {
		if out, code := f.inAgent("a", command); code != 77 {
			t.Errorf("%s exits with %d: %s", command, code, out)
		}
	}
	out, code := f.inAgent("a", "coppice agent task claim >&2\n"+
		"coppice agent outcome blocked --approach x --obstacle y --until 'command=touch hacked'")
	if code != exitUsage || !strings.Contains(out, "condition.kind is command, which only people can set") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if got := f.task(id); got.Claim == nil || got.Condition != nil {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "true", "command=", "moon=full", "event=task.close", "time=soon"} {
		f.wantCode(exitUsage, "task", "block", id, "--until", bad)
	}

	f.do("task", "block", id, "--until", "command=echo 'not yet'; exit 3")
	eventually(t, "the check is shown", func() bool {
		return strings.Contains(f.do("task", "show", id), "exit code 3: not yet; next check in ")
	})
	write(t, filepath.Join(f.dir, "ready"), "")
	f.do("task", "block", id, "--until", "command=test -e ready && pwd >where", "--reason", "the machine is away")
	eventually(t, "the command opens the task", func() bool { return f.task(id).Status == task.Open })
	if where := strings.TrimSpace(f.awaitFile("where")); where != f.dir {
		t.Errorf("the command has run in %s", where)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "hacked")); err == nil {
		t.Error("a command of an agent has run")
	}
}

// A pipeline whose stage finds that a service is down goes on when the check of the service succeeds.
func TestPipelineWaitsForService(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, serviceTOML("The Registry"))
	p.up()
	id := p.add("wait e", "--pool", "fixer")
	d := p.await(id, "blocked", func(t task.Task) bool { return t.Status == task.Blocked })
	if d.Task.Question != nil || d.Attempts[0].Outcome.Kind != outcome.Blocked {
		t.Errorf("%+v", d.Task)
	}
	write(t, filepath.Join(p.dir, "up"), "")
	p.await(id, "tried again", func(t task.Task) bool { return t.Claims > 1 })
	p.do("task", "close", id, "--outcome", "cancelled")
}
