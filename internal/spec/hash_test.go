package spec

import (
	"testing"
	"time"
	"unsafe"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestHash(t *testing.T) {
	base := func() *Agent {
		return &Agent{Name: "a", Command: []string{"x", "y"}, Dir: "/d", Stdin: "/in", Env: map[string]string{"A": "1", "B": "2"}}
	}
	seen := map[string]string{base().DeclaredHash().Sum: "the agent itself"}
	for what, change := range map[string]func(*Agent){
		"command":       func(a *Agent) { a.Command = []string{"xy"} },
		"one word":      func(a *Agent) { a.Command = []string{"x y"} },
		"more words":    func(a *Agent) { a.Command = []string{"x", "y", "/d"} },
		"dir":           func(a *Agent) { a.Dir = "/e" },
		"no stdin":      func(a *Agent) { a.Stdin = "" },
		"dir and stdin": func(a *Agent) { a.Dir, a.Stdin = "/d/in", "" },
		"env":           func(a *Agent) { a.Env = map[string]string{"A": "1B", "B": "2"} },
		"env file":      func(a *Agent) { a.EnvFiles = []string{"/e"} },
		"env files":     func(a *Agent) { a.EnvFiles = []string{"/e", "/f"} },
		"less env":      func(a *Agent) { a.Env = map[string]string{"A": "1"} },
		"runtime":       func(a *Agent) { a.Runtime = Tmux },
		"terminal":      func(a *Agent) { a.Terminal = true },
		"memory":        func(a *Agent) { a.Limits.Memory = 1 << 20 },
		"cpu":           func(a *Agent) { a.Limits.CPU = 0.5 },
		"open files":    func(a *Agent) { a.Limits.OpenFiles = 12 },
		"processes":     func(a *Agent) { a.Limits.Processes = 12 },
		"user":          func(a *Agent) { a.User = "u" },
		"group":         func(a *Agent) { a.User, a.Group = "u", "g" },
		"privileges":    func(a *Agent) { a.NoNewPrivileges = true },
		"no writes":     func(a *Agent) { a.ReadWritePaths = []string{} },
		"writes":        func(a *Agent) { a.ReadWritePaths = []string{"/a", "/b"} },
		"protected":     func(a *Agent) { a.ReadWritePaths, a.ReadOnlyPaths = []string{"/a"}, []string{"/b"} },
		"notify":        func(a *Agent) { a.Notify = true },
		"watchdog":      func(a *Agent) { a.Notify, a.Watchdog = true, time.Minute },
		"pipeline":      func(a *Agent) { a.Pipeline = &pipeline.Settings{} },
		"tasks":         func(a *Agent) { a.Pipeline = &pipeline.Settings{Tasks: "x"} },
		"files 1, 23":   func(a *Agent) { a.Limits.OpenFiles, a.Limits.Processes = 1, 23 },
		"files 12, 3":   func(a *Agent) { a.Limits.OpenFiles, a.Limits.Processes = 12, 3 },
	} {
		a := base()
		change(a)
		f := a.DeclaredHash().Sum
		if other, ok := seen[f]; ok {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[f] = what
	}
	a := base()
	a.Restart, a.Backoff.Base, a.Shutdown.Grace, a.Ready.Log, a.Significant = supervisor.Temporary, time.Second, time.Minute, "x", true
	a.Logs, a.CLI = Logs{MaxSize: 1 << 20, Keep: 1}, agentcli.Codex
	a.Placement = Placement{Node: "a", Labels: map[string]string{"zone": "eu"}, Spread: "zone", MaxPerNode: 1}
	if a.DeclaredHash().Sum != base().DeclaredHash().Sum {
		t.Error("what is changed in place has changed the hash")
	}
}

// A fleet has many hashes, and most fields are the same in most of them.
func TestHashesShareMemory(t *testing.T) {
	t.Parallel()
	a := Agent{Name: "a", Command: []string{"sleep", "1"}, Dir: "/"}
	b := Agent{Name: "b", Command: []string{"sleep", "1"}, Dir: "/"}
	first, second := a.DeclaredHash(), b.DeclaredHash()
	if len(first.Fields) != len(second.Fields) || cap(first.Fields) != len(first.Fields) {
		t.Fatalf("%d fields in %d, %d", len(first.Fields), cap(first.Fields), len(second.Fields))
	}
	for i, f := range first.Fields {
		if g := second.Fields[i]; f != g || unsafe.StringData(f.Hash) != unsafe.StringData(g.Hash) {
			t.Errorf("%+v and %+v share no memory", f, g)
		}
	}
}
