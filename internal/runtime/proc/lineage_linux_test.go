package proc

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// The chain of a process begins with itself and ends with the first process.
func TestLineage(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{"A=b=c"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	l, err := LineageOf(child.PID)
	if err != nil || len(l.Processes) < 3 || l.Processes[0] != child || l.Processes[1] != self {
		t.Errorf("%+v, %v; want %+v below %+v", l, err, child, self)
	}
	own, err := LineageOf(self.PID)
	if err != nil || !slices.Equal(own.Processes, l.Processes[1:]) || own.Group != l.Group {
		t.Errorf("%+v, %v; want the rest of %+v", own, err, l)
	}
	if env := EnvironmentOf(child.PID); len(env) != 1 || env["A"] != "b=c" {
		t.Errorf("environment %q", env)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if l, err := LineageOf(child.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("of one that has ended: %+v, %v", l, err)
	}
}

// A process belongs to its ancestors, and to the leaders of its process group and session even if its
// parents have ended. A session alone does not make it part of the tree.
func TestBelongsTo(t *testing.T) {
	exectest.Need(t, "setsid")
	exectest.Need(t, "bash")
	p, out := start(t, sh(`sleep 1000 & echo "child $!"; (sleep 1000 & echo "orphan $!")
		setsid bash -c 'bash -c "set -m; sleep 1000 & echo job \$!"; echo "away $$"; exec sleep 1000' & wait`))
	pid := func(name string) int {
		pid, err := strconv.Atoi(out.await(t, name+" "))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	job, away := pid("job"), pid("away")
	t.Cleanup(func() { exectest.Signal(t, job, syscall.SIGKILL) })
	for name, c := range map[string]struct {
		pid, leader       int
		inTree, belongsTo bool
	}{
		"itself":     {p.PID(), p.PID(), true, true},
		"child":      {pid("child"), p.PID(), true, true},
		"of group":   {pid("orphan"), p.PID(), true, true},
		"escaped":    {away, p.PID(), true, true},
		"of session": {job, away, false, true},
		"parent":     {os.Getpid(), p.PID(), false, false},
	} {
		if got := InTree(c.pid, c.leader); got != c.inTree {
			t.Errorf("%s: in the tree: %t", name, got)
		}
		if got := BelongsTo(c.pid, c.leader); got != c.belongsTo {
			t.Errorf("%s: belongs to it: %t", name, got)
		}
	}
}
