package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/status"
)

const readyNotify = `ready = { notify = true }`

// failureData returns the error of an event, and the rest of its data.
func failureData(t *testing.T, e event.Event) (string, map[string]any) {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatal(err)
	}
	text, _ := data["error"].(string)
	return text, data
}

// eachRuntime runs a test for agents of both runtimes.
func eachRuntime(t *testing.T, test func(t *testing.T, keys ...string)) {
	t.Run("proc", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	t.Run("tmux", func(t *testing.T) {
		needTmux(t)
		t.Parallel()
		test(t, inTmux)
	})
}

// A frozen service is replaced, with the reason. (In tmux it cannot freeze: tmux continues stopped
// processes.)
func TestWatchdogFrozen(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec coppice-test-pulse`, readyNotify, `watchdog = "3s"`))
	f.do("up", "-d")
	n := f.awaitStatus("t/a", "at work")
	if out := f.do("ps"); !strings.Contains(out, "STATUS") || !strings.Contains(out, "at work") {
		t.Errorf("ps: %s", out)
	}
	if out := f.do("tree"); !strings.Contains(out, "at work") {
		t.Errorf("tree: %s", out)
	}
	if out := f.do("explain", "a"); !strings.Contains(out, "it says: at work") || !strings.Contains(out, "its watchdog") {
		t.Errorf("explain: %s", out)
	}
	exectest.Signal(t, n.PID, syscall.SIGSTOP)
	f.awaitNode("t/a", "comes back", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 2 })
	crashes := f.events(event.AgentCrashed, "t/a")
	if len(crashes) != 1 {
		t.Fatalf("crashes: %v", crashes)
	}
	if text, _ := failureData(t, crashes[0]); text != "watchdog: nothing heard for 3s" {
		t.Errorf("the reason is %q", text)
	}
	if n := f.node("t/a"); n.Restarts != 1 || n.LastExit != "watchdog: nothing heard for 3s" {
		t.Errorf("%+v", n)
	}
	if _, err := os.Stat(fmt.Sprint("/proc/", n.PID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the frozen process is still there: %v", err)
	}
}

// awaitStatus waits for a status text of a running agent.
func (f *fleet) awaitStatus(path, status string) (n status.Node) {
	f.t.Helper()
	eventually(f.t, path+" to say "+status, func() bool {
		n = f.node(path)
		return n.StatusText == status && n.State == "running"
	})
	return n
}

// sayer returns an agent that sends the notifications that the test wants.
func sayer(t *testing.T, dir string) (script string, say func(words ...string)) {
	t.Helper()
	words := filepath.Join(dir, "words")
	if err := syscall.Mkfifo(words, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(words, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return "exec coppice-test-say words", func(words ...string) {
		for _, word := range words {
			if !strings.HasPrefix(word, "exit ") {
				word = strconv.Quote(word)
			}
			if _, err := w.WriteString(word + "\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// No agent fails for what it did while no daemon ran. The next daemon knows the earlier
// notifications.
func TestWatchdogWithoutDaemon(t *testing.T) {
	eachRuntime(t, func(t *testing.T, keys ...string) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		script, say := sayer(t, dir)
		f := fleetIn(t, dir,
			agentTOML("a", script, append(keys, `watchdog = "3s"`)...),
			agentTOML("b", `exec coppice-test-pulse`, append(keys, readyNotify, `watchdog = "3s"`)...))
		say("STATUS=before\nWATCHDOG=1")
		f.do("up", "-d")
		pulse := f.node("t/b")
		before := f.awaitStatus("t/a", "before")
		f.crash()
		time.Sleep(4 * time.Second) // longer than both watchdogs
		f.do("up", "-d")
		if n := f.node("t/a"); n.PID != before.PID || n.StatusText != "before" {
			t.Errorf("after the daemon came back: %+v, before: %+v", n, before)
		}
		say("WATCHDOG=1\nSTATUS=after")
		f.awaitStatus("t/a", "after")

		// The agent is silent now, but a daemon that was stopped for a while cannot blame it for
		// that.
		pid := f.status().Controller.PID
		exectest.Signal(t, pid, syscall.SIGSTOP)
		time.Sleep(4 * time.Second)
		exectest.Signal(t, pid, syscall.SIGCONT)
		if n := f.node("t/a"); n.PID != before.PID {
			t.Errorf("after the daemon was frozen: %+v", n)
		}
		f.awaitNode("t/a", "is condemned in the end", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 2 })
		if n := f.node("t/b"); n.PID != pulse.PID || n.State != "running" {
			t.Errorf("who was never silent: %+v", n)
		}
	})
}

// The last status of an agent is reported with its exit.
func TestAnnouncedEnd(t *testing.T) {
	eachRuntime(t, func(t *testing.T, keys ...string) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		script, say := sayer(t, dir)
		f := fleetIn(t, dir, agentTOML("a", script, append(keys, `notify = true`)...))
		f.do("up", "-d")
		say("STATUS=that was it", "STOPPING=1", "exit 0")
		f.awaitNode("t/a", "ends", func(n status.Node) bool { return n.Incarnation == 2 && n.State == "running" })
		if n := f.node("t/a"); n.StatusText != "" {
			t.Errorf("its successor says what it has said: %+v", n)
		}
		say("STOPPING=1\nERRNO=28\nSTATUS=no space", "exit 4")
		f.awaitNode("t/a", "fails", func(n status.Node) bool { return n.Incarnation == 3 && n.State == "running" })
		say("WATCHDOG=trigger")
		f.awaitNode("t/a", "is condemned", func(n status.Node) bool { return n.Incarnation == 4 && n.State == "running" })
		if exits := f.events(event.AgentExited, "t/a"); len(exits) != 1 {
			t.Errorf("exits: %v", exits)
		} else if _, data := failureData(t, exits[0]); data["announced"] != true || data["status_text"] != "that was it" || data["exit"] != "normal" {
			t.Errorf("exit: %v", data)
		}
		crashes := f.events(event.AgentCrashed, "t/a")
		if len(crashes) != 2 {
			t.Fatalf("crashes: %v", crashes)
		}
		if text, data := failureData(t, crashes[0]); text != "exit code 4" || data["announced"] != nil || data["errno"] != 28.0 || data["status_text"] != "no space" {
			t.Errorf("failure: %v", data)
		}
		if text, _ := failureData(t, crashes[1]); !strings.Contains(text, "WATCHDOG=trigger") {
			t.Errorf("the reason is %q", text)
		}
	})
}

// A service written for systemd is an agent without changes: here coppice itself.
func TestCoppiceInCoppice(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("inner", `exec coppice up`, `dir = "inner"`, readyNotify, `watchdog = "5s"`, `shutdown = { grace = "20s" }`))
	if err := os.Mkdir(filepath.Join(f.dir, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	inner := fleetIn(t, filepath.Join(f.dir, "inner"), agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	// It is ready when its agents are.
	f.awaitState("t/inner", "running")
	if a := inner.node("t/a"); a.State != "running" {
		t.Errorf("the inner agent: %+v", a)
	}
	if x := f.explain("t/inner"); !strings.Contains(fmt.Sprint(x.Evidence), "its watchdog") {
		t.Errorf("evidence: %q", x.Evidence)
	}
	eventually(t, "a sign of life", func() bool { return strings.Contains(fmt.Sprint(f.explain("t/inner").Evidence), "heard of it") })

	// It ends when something else stops it.
	inner.do("down")
	n := f.awaitNode("t/inner", "comes back", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 2 })
	if exits := f.events(event.AgentExited, "t/inner"); len(exits) != 1 {
		t.Errorf("exits: %v", exits)
	} else if _, data := failureData(t, exits[0]); data["announced"] != true {
		t.Errorf("exit: %v", data)
	}

	// It is frozen.
	exectest.Signal(t, n.PID, syscall.SIGSTOP)
	f.awaitNode("t/inner", "is replaced", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 3 })
	crashes := f.events(event.AgentCrashed, "t/inner")
	if len(crashes) != 1 {
		t.Fatalf("crashes: %v", crashes)
	}
	if text, _ := failureData(t, crashes[0]); text != "watchdog: nothing heard for 5s" {
		t.Errorf("the reason is %q", text)
	}
	if a := inner.awaitState("t/a", "running"); a.PID == 0 {
		t.Errorf("the inner agent: %+v", a)
	}
	f.do("down") // before the check for processes of the inner one
}

func TestSystemdNotifyAgent(t *testing.T) {
	exectest.Need(t, "systemd-notify")
	t.Parallel()
	f := newFleet(t, agentTOML("a", `systemd-notify --ready --status="the shell is up"; exec sleep 1000`, readyNotify))
	f.do("up", "-d")
	f.awaitStatus("t/a", "the shell is up")
}
