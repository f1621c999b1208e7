package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A node can be named by any unambiguous end of its path; errors list the candidates.
func TestNamed(t *testing.T) {
	t.Parallel()
	sleep := "exec sleep 1000"
	f := newFleet(t,
		supervisorTOML("backend", []string{"inner", "db"}), supervisorTOML("inner", []string{"worker"}),
		agentTOML("db", "echo I am db; "+sleep), agentTOML("worker", sleep),
		agentTOML("left", sleep, `pool = { min = 1, max = 1, namepool = ["mia", "leo"] }`),
		agentTOML("right", sleep, `pool = { min = 1, max = 1, namepool = ["mia", "tim"] }`))
	f.do("up", "-d")
	for _, name := range []string{"worker", "inner/worker", "backend/inner/worker", "/t/backend/inner/worker"} {
		if out := f.do("explain", name); !strings.HasPrefix(out, "t/backend/inner/worker has been running") {
			t.Errorf("explain %s:\n%s", name, out)
		}
	}
	eventually(t, "the output of db", func() bool { return strings.Contains(f.do("logs", "db"), "I am db") })
	f.do("stop", "db")
	f.awaitStates("backend/db stopped")
	f.do("start", "db")
	if out := f.do("events", "--path", "db"); !strings.Contains(out, "t/backend/db") {
		t.Errorf("events of db:\n%s", out)
	}
	for args, want := range map[string]string{
		"explain wroker":      `t/wroker: no such node; did you mean "backend/inner/worker"?`,
		"stop backend/wroker": `did you mean "backend/inner/worker"?`,
		"logs t/backnd/db":    `did you mean "backend/db"?`,
		"drain xyzzy":         "t/xyzzy: no such node; coppice tree shows all",
		"explain mia":         "which one is meant: t/left/mia, t/right/mia?",
		"explain lft/mia":     `did you mean "left/mia"?`,
		"explain der/db":      "no such node",
	} {
		out, err := f.try(strings.Fields(args)...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitNotFound || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s, want %s", args, err, out, want)
		}
	}
}

// A command of an order belongs to its project in any directory, except inside another project.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "exec sleep 1000"),
		"[[order]]\nname = \"far\"\ngate = \"manual\"\ndir = \"/\"\nexec = \"coppice ps a; coppice task add Elsewhere\"\n\n",
		"[[order]]\nname = \"other\"\ngate = \"manual\"\ndir = \"other\"\nexec = \"coppice stop b\"\n\n")
	other := filepath.Join(f.dir, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	projectIn(t, other, agentTOML("b", "exec sleep 1000"))
	f.do("up", "-d")
	if out := f.do("order", "run", "far", "--wait"); !strings.Contains(out, "t/a") {
		t.Errorf("far: %s", out)
	}
	if out := f.do("task", "ls"); !strings.Contains(out, "Elsewhere") {
		t.Errorf("tasks: %s", out)
	}
	if out, err := f.try("order", "run", "other", "--wait"); err == nil || !strings.Contains(out, "no daemon is running here") {
		t.Errorf("other: %v, %s", err, out)
	}
	if out := f.do("start", "a"); out != "t/a is already running\n" {
		t.Errorf("start of what runs: %q", out)
	}
	f.wantFailure(exitUsage, []string{"fire", "a"}, "t/a has no Aidefile")
}
