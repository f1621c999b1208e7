//go:build linux

package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/status"
)

// fleet is a project with a daemon, driven by commands.
type fleet struct {
	t   *testing.T
	dir string
	env []string // added to the environment of its commands and daemon
}

func newFleet(t *testing.T, toml ...string) *fleet {
	t.Helper()
	return fleetOf(t, project(t, toml...))
}

// fleetIn is newFleet in an existing directory.
func fleetIn(t *testing.T, dir string, toml ...string) *fleet {
	t.Helper()
	projectIn(t, dir, toml...)
	return fleetOf(t, dir)
}

func fleetOf(t *testing.T, dir string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: dir}
	t.Cleanup(func() {
		if out, err := f.try("status"); err == nil {
			if out, err := f.try("down"); err != nil {
				t.Errorf("down: %v: %s", err, out)
			}
		} else if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(f.dir, ".coppice", "daemon.log"))
			t.Logf("%s\nlast words: %.4000s", out, log)
		}
	})
	return f
}

func (f *fleet) try(args ...string) (string, error) {
	cmd := command(f.t, args...)
	cmd.Dir, cmd.Env = f.dir, append(os.Environ(), f.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// do runs a command that must succeed.
func (f *fleet) do(args ...string) string {
	f.t.Helper()
	out, err := f.try(args...)
	if err != nil {
		f.t.Fatalf("coppice %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// up starts a daemon in the background. Agents may fail right after the start.
func (f *fleet) up() string {
	f.t.Helper()
	out, err := f.try("up", "-d")
	if err != nil && !strings.Contains(out, "not well:") {
		f.t.Fatalf("coppice up -d: %v\n%s", err, out)
	}
	return out
}

// ask calls the daemon directly, which is faster than a command.
func (f *fleet) ask(do func(context.Context, *api.Client) error) error {
	f.t.Helper()
	client := f.dial()
	defer client.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), waitTimeout)
	defer cancel()
	return do(ctx, client)
}

func (f *fleet) dial() *api.Client {
	f.t.Helper()
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return api.Dial(socket)
}

func (f *fleet) node(path string) (n status.Node) {
	f.t.Helper()
	if err := f.ask(func(ctx context.Context, c *api.Client) (err error) {
		n, err = nodeOf(ctx, c, path)
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func nodeOf(ctx context.Context, c *api.Client, path string) (status.Node, error) {
	nodes, err := status.List.Call(ctx, c, status.ListRequest{})
	if err != nil {
		return status.Node{}, err
	}
	for _, n := range nodes {
		if n.Path == path {
			return n, nil
		}
	}
	return status.Node{}, fmt.Errorf("no node %s in %v", path, nodes)
}

func (f *fleet) status() (s status.Status) {
	f.t.Helper()
	if err := f.ask(func(ctx context.Context, c *api.Client) (err error) {
		s, err = status.Get.Call(ctx, c, api.None{})
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// crash kills the daemon with SIGKILL and waits for its end.
func (f *fleet) crash() {
	f.t.Helper()
	pid := f.status().Controller.PID
	for _, p := range processesIn(f.t, f.dir) {
		if p.pid == pid {
			exectest.Signal(f.t, pid, syscall.SIGKILL)
			p.awaitEnd(f.t)
			return
		}
	}
	f.t.Fatalf("the daemon %d is not there", pid)
}

// awaitState waits for a node's state by following events.
func (f *fleet) awaitState(path, state string) (n status.Node) {
	f.t.Helper()
	if err := f.ask(func(ctx context.Context, c *api.Client) error {
		for _, err := range feed.Events(ctx, c, event.Query{Follow: true}) {
			if err == nil {
				n, err = nodeOf(ctx, c, path)
			}
			if err != nil || n.State == state {
				return err
			}
		}
		return ctx.Err()
	}); err != nil {
		f.t.Fatalf("%s is %s, not %s: %v", path, n.State, state, err)
	}
	return n
}

func TestDaemonIsKilled(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	f := newFleet(t,
		agentTOML("a", `exec sleep 1000`),
		agentTOML("stopped", `exec sleep 1000`),
		agentTOML("once", `exit 0`, `restart = "on-failure"`),
		agentTOML("limited", `exit 3`, `restart = "on-failure"`, `max_restarts = 2`, `on_limit = "give_up"`),
		agentTOML("brief", `exit 0`, `restart = "never"`),
		agentTOML("unseen", `read x < go; exit 7`, `restart = "on-failure"`, `backoff = { kind = "fixed", base = "100s" }`))
	release := fifo(t, f.dir, "go")
	if out := f.up(); !strings.Contains(out, "t is up") {
		t.Errorf("up -d says %q", out)
	}
	f.do("stop", "t/stopped")
	gaveUp := f.awaitState("t/limited", "given_up")
	before := f.node("t/a")
	f.crash()

	out, err := f.try("status")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 69 {
		t.Errorf("status without a daemon: %v, want exit code 69: %s", err, out)
	}
	// Agents that end while no daemon runs are handled as if they ended later.
	unseen := awaitOne(t, f.dir, "read x")
	release()
	unseen.awaitEnd(t)

	f.up()
	if after := f.node("t/a"); after.PID != before.PID || after.Incarnation != before.Incarnation || after.State != "running" {
		t.Errorf("after: %+v, before: %+v", after, before)
	}
	for path, want := range map[string]string{"t/stopped": "stopped", "t/once": "stopped", "t/limited": "given_up"} {
		if n := f.node(path); n.State != want {
			t.Errorf("%s is %s, want %s", path, n.State, want)
		}
	}
	if n := f.node("t/limited"); n.Restarts != gaveUp.Restarts || n.Incarnation != gaveUp.Incarnation {
		t.Errorf("limited: %+v, before: %+v", n, gaveUp)
	}
	if n := f.awaitState("t/unseen", "restarting"); n.NextAt == nil || time.Until(*n.NextAt) > 100*time.Second {
		t.Errorf("unseen: %+v", n)
	}
	// The log has each start and each end once, and its numbers have no gaps.
	var last uint64
	told := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(f.do("events", "--json")), "\n") {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Errorf("event %d comes after %d", e.Seq, last)
		}
		last = e.Seq
		told[fmt.Sprintf("%s %s %d", e.Type, e.Path, e.Incarnation)]++
	}
	for _, want := range []string{"agent.started t/a 1", "agent.adopted t/a 1", "agent.exited t/once 1", "agent.crashed t/unseen 1", "agent.crashed t/limited 3"} {
		if told[want] != 1 {
			t.Errorf("%s: %d times, want once; there are %v", want, told[want], told)
		}
	}
	f.do("start", "t/stopped")
	f.do("reset", "t/limited")
	f.do("start", "t/brief") // temporary, so its supervisor has dropped it
	f.awaitNode("t/brief", "the end of another life", func(n status.Node) bool {
		return n.State == "stopped" && n.Incarnation == 2 && n.LastExit == "normal"
	})
	if n := f.node("t/stopped"); n.State != "running" {
		t.Errorf("stopped, then started: %+v", n)
	}
}

// awaitOne waits for a process of a directory whose command line contains text.
func awaitOne(t *testing.T, dir, text string) process {
	t.Helper()
	for _, p := range processesIn(t, dir) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.Contains(string(line), text) && !strings.Contains(string(line), "shim") {
			return p
		}
	}
	t.Fatalf("no process %q in %s", text, dir)
	return process{}
}

// Exactly one of many daemons started at once gets the project.
func TestOneDaemon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	const many = 12
	outs := make(chan string, many)
	for range many {
		go func() {
			out, err := f.try("up", "-d")
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			outs <- out
		}()
	}
	won := 0
	for range many {
		if out := <-outs; !strings.Contains(out, "is already up, process ") {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d daemons have started, want 1", won)
	}
	if n := f.node("t/a"); n.Incarnation != 1 {
		t.Errorf("the agent was started %d times", n.Incarnation)
	}
}

func TestDownKeepsAgents(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	before := f.node("t/a")
	f.do("down", "--keep-agents")
	f.do("up", "-d")
	if after := f.node("t/a"); after.PID != before.PID || after.Incarnation != 1 {
		t.Errorf("after: %+v, before: %+v", after, before)
	}
	f.do("down")
	without := f.do("doctor")
	f.do("up", "-d")
	if n := f.node("t/a"); n.PID == before.PID || n.State != "running" {
		t.Errorf("after down and up: %+v", n)
	}
	found := f.do("doctor")
	groups := regexp.MustCompile(`(?m)^.* groups .*$`)
	if with := groups.FindString(found); with == "" || with != groups.FindString(without) {
		t.Errorf("doctor says of control groups %q without a daemon, and %q with one", groups.FindString(without), with)
	}
	for _, want := range []string{"answers", "1 live"} {
		if !strings.Contains(found, want) {
			t.Errorf("doctor says nothing of %q:\n%s", want, found)
		}
	}
}

// Manual actions are durable when the command returns.
func TestActsAreDurable(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	for range 4 {
		f.do("stop", "a")
		f.crash()
		f.do("up", "-d")
		if n := f.node("t/a"); n.State != "stopped" {
			t.Fatalf("the stop is forgotten: %+v", n)
		}
		f.do("start", "a")
		f.crash()
		f.do("up", "-d")
		before := f.node("t/a")
		if before.State != "running" {
			t.Fatalf("the start is forgotten: %+v", before)
		}
		f.do("restart", "a")
		f.crash()
		f.do("up", "-d")
		if n := f.node("t/a"); n.State != "running" || n.Incarnation != before.Incarnation+1 {
			t.Fatalf("the restart is forgotten: %+v, before it %+v", n, before)
		}
	}
}
