package test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task"
)

// waitFor starts a waiting claim of an agent, and returns its result.
func (f *fleet) waitFor(name string, incarnation int, args ...string) (end chan waited) {
	f.t.Helper()
	cmd := exec.Command("coppice", append([]string{"agent", "task", "claim", "-q", "--wait"}, args...)...)
	cmd.Dir, cmd.Env = f.dir, f.environ(name, incarnation)
	end = make(chan waited, 1)
	go func() {
		out, _ := cmd.CombinedOutput()
		end <- waited{strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()}
	}()
	return end
}

type waited struct {
	out  string
	code int
}

// Waiting agents get new tasks, each once, across a killed daemon. Other results have their own
// exit codes.
func TestClaimWait(t *testing.T) {
	t.Parallel()
	const agents = 4
	var blocks []string
	for n := range agents {
		blocks = append(blocks, tokenKeeperTOML(fmt.Sprint("a", n)))
	}
	f := newFleet(t, append(blocks, tokenKeeperTOML("slow"), tokenKeeperTOML("drained"))...)
	f.do("up", "-d")
	var ends []chan waited
	for n := range agents {
		ends = append(ends, f.waitFor(fmt.Sprint("a", n), 1, "--pool", "p"))
	}
	if end := <-f.waitFor("slow", 1, "--timeout", "50ms"); end.code != exitTimeout || !strings.Contains(end.out, "within 50ms") {
		t.Errorf("%+v", end)
	}
	for args, want := range map[string]string{
		"--timeout -1s": "expected how long to wait", "t-1": "the first task that is ready",
	} {
		if end := <-f.waitFor("slow", 1, strings.Fields(args)...); end.code != exitUsage || !strings.Contains(end.out, want) {
			t.Errorf("%s: %+v", args, end)
		}
	}
	f.wantAgentCode(exitUsage, "slow", 1, "task", "claim", "--timeout", "1s")
	drained := f.waitFor("drained", 1)
	eventually(t, "that it waits", func() bool { return f.isWaiting("t/drained") })
	drain := exec.Command("coppice", "drain", "drained", "--timeout", "10m")
	drain.Dir = f.dir
	if err := drain.Start(); err != nil {
		t.Fatal(err)
	}
	if end := <-drained; end.code != exitFailure || !strings.Contains(end.out, "being drained") {
		t.Errorf("%+v", end)
	}
	f.wantAgentCode(exitFailure, "drained", 1, "task", "claim", "--wait")
	f.wantAgentCode(0, "drained", 1, "drain-ack")
	if err := drain.Wait(); err != nil {
		t.Error(err)
	}
	over := f.waitFor("slow", 1)
	eventually(t, "that it waits", func() bool { return f.isWaiting("t/slow") })
	f.do("restart", "slow")
	if end := <-over; end.code != exitAuth {
		t.Errorf("%+v", end)
	}
	f.crash()
	f.do("up", "-d")
	given := map[string]bool{}
	for n := range agents {
		draft := task.Draft{Title: fmt.Sprint("task ", n), Pool: "p"}
		made, err := task.Add.Call(t.Context(), f.client(), task.AddRequest{Task: draft})
		if err != nil {
			t.Fatal(err)
		}
		given[made.ID] = false
	}
	for n, end := range ends {
		got := <-end
		if done, made := given[got.out]; got.code != 0 || !made || done {
			t.Errorf("a%d: %+v", n, got)
		}
		given[got.out] = true
		if one := f.task(got.out); one.Status != task.InProgress || one.Claim.By != fmt.Sprint("t/a", n) {
			t.Errorf("%+v", one)
		}
	}
}

// isWaiting reports whether an agent waits for the daemon.
func (f *fleet) isWaiting(path string) bool {
	f.t.Helper()
	x, err := status.Explain.Call(f.t.Context(), f.client(), status.ExplainRequest{Path: path})
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Contains(strings.Join(x.Evidence, "\n"), "waits for a task")
}
