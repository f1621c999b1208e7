package proc

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
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
