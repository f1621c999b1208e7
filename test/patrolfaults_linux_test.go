package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/status"
)

// A missing file changes nothing, and commands still work. When it returns, with or without its
// directory, it applies.
func TestFileIsGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	a := f.node("t/a")
	file := filepath.Join(f.dir, "coppice.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f.awaitAfter(event.ConfigRejected, "coppice.toml", func() { os.Remove(file) })
	if out := f.do("status"); !strings.Contains(out, "coppice.toml") || !strings.Contains(out, "no such file") {
		t.Errorf("the status says %s", out)
	}
	if n := f.node("t/a"); n.PID != a.PID {
		t.Errorf("%+v, before %+v", n, a)
	}
	f.awaitAfter(event.ConfigReloaded, "1 added", func() { f.replace(string(text) + agentTOML("b", `exec sleep 1000`)) })
	if s := f.status(); s.Config.LastError != "" {
		t.Errorf("the status still says %s", s.Config.LastError)
	}
	f.awaitAfter(event.ConfigRejected, "coppice.toml", func() { os.Remove(file) })
	f.do("down")
	if out, err := f.try("status"); err == nil || !strings.Contains(out, "no daemon is running here") {
		t.Errorf("after the end: %s", out)
	}
}

// A process in a slot of the project that is not an agent is stopped; other windows of its tmux
// server are left alone.
func TestStrangers(t *testing.T) {
	t.Parallel()
	needTmux(t)
	f := newFleet(t, agentTOML("a", `exec sleep 1000`), agentTOML("b", `exec sleep 1000`, inTmux))
	f.do("up", "-d")
	a, b := f.node("t/a"), f.node("t/b")
	server := func(args ...string) error {
		cmd := exec.Command("tmux", append([]string{"-S", "tmux"}, args...)...)
		cmd.Dir = filepath.Join(f.dir, ".coppice", "tmux") // the name of a socket must be short
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("tmux %v: %w: %s", args, err, out)
		}
		return err
	}
	if err := server("new-session", "-d", "-s", "mine", "sleep 1000"); err != nil {
		t.Fatal(err)
	}
	slots, err := shim.Open(shim.Options{Dir: filepath.Join(f.dir, ".coppice", "run")})
	if err != nil {
		t.Fatal(err)
	}
	defer slots.Close()
	ghost, err := slots.Start(context.Background(), runtime.Launch{
		Path: "t/ghost", Incarnation: 1, Argv: []string{"sleep", "1000"}, Dir: f.dir, StopSignal: syscall.SIGTERM, Grace: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if out := f.do("patrol", "--dry-run"); !strings.Contains(out, "stop") || !strings.Contains(out, "t/ghost") || strings.Contains(out, "mine") {
		t.Errorf("a round would do: %s", out)
	}
	f.do("patrol")
	select {
	case <-ghost.Done():
	case <-time.After(time.Minute):
		t.Fatal("it lives")
	}
	eventually(t, "its slot to go", func() bool {
		all, err := slots.List(context.Background())
		return err == nil && len(all) == 1
	})
	if told := f.events("agent.stopped", "t/ghost"); len(told) != 1 {
		t.Errorf("it was told %+v", told)
	}
	if out := f.do("patrol", "--dry-run"); strings.Contains(out, "t/") {
		t.Errorf("another round would do: %s", out)
	}
	for _, was := range []status.Node{a, b} {
		if n := f.node(was.Path); n.PID != was.PID || n.State != "running" {
			t.Errorf("%+v, before %+v", n, was)
		}
	}
	if err := server("kill-session", "-t", "mine"); err != nil {
		t.Errorf("the session of somebody else: %v", err)
	}
}
