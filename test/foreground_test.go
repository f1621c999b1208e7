//go:build linux

package test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/usage"
)

// A run answers the same commands as a daemon.
func TestRunAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", polite), agentTOML("b", `echo "up $$"; read x < go; echo last words; exit 3`, `restart = "never"`),
		agentTOML("bar", `printf '1%%\r'; sleep 0.3; printf '2%%'; read x < bar; echo; exec sleep 1000`))
	finish := fifo(t, f.dir, "bar")
	release := fifo(t, f.dir, "go")
	r := launch(t, f.dir, "run")
	r.out.awaitText(t, "t * started\n")
	r.out.awaitText(t, "t/b | up ")
	if n := f.node("t/a"); n.State != "running" || n.Incarnation != 1 || n.PID == 0 {
		t.Errorf("a: %+v", n)
	} else if used := new(usage.Meter).Sample([]status.Node{n}, status.Controller{Host: n.Host})["t/a"]; used.Memory < 1<<20 {
		t.Errorf("a has %s of memory", used.Bytes()) // it is a shell
	}
	if out := f.do("logs", "b"); !strings.HasPrefix(out, "up ") {
		t.Errorf("logs: %q", out)
	}
	// An unfinished line is visible until it is complete.
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for text, err := range output.Unfinished(ctx, f.client(), "bar") {
		if err != nil {
			t.Fatal(err)
		}
		if text == "1%\r2%" {
			if out := f.do("logs", "bar"); !strings.HasSuffix(out, "2%\n") {
				t.Errorf("logs of a line without end: %q", out)
			}
			finish()
		} else if text == "" {
			break
		}
	}
	f.do("stop", "a")
	r.out.awaitText(t, "t/a | bye\n")
	f.do("start", "a")
	r.out.await(t, "its next life", func() bool { return strings.Count(r.out.String(), "t/a | up ") == 2 })
	release()
	r.out.awaitText(t, "t/b * ended after ")
	if out := f.do("explain", "b"); !strings.Contains(out, "last words") {
		t.Errorf("explain: %s", out)
	}
	if out := f.do("events"); !strings.Contains(out, "agent.crashed t/b#1") {
		t.Errorf("events: %s", out)
	}
	if out := f.do("down"); !strings.Contains(out, "t is down") {
		t.Errorf("down: %s", out)
	}
	r.wantExit(0)
	if r.err.String() != "" {
		t.Errorf("stderr: %s", r.err)
	}
}

// A project has one controller, a run or a daemon.
func TestOneController(t *testing.T) {
	t.Parallel()
	for first, second := range map[string]string{"run": "up", "up": "run"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			dir := project(t, agentTOML("a", sleeper))
			r := launch(t, dir, first)
			r.out.awaitText(t, map[string]string{"run": "t * started", "up": "t started"}[first])
			other := launch(t, dir, second)
			other.wantExit(1)
			if got, want := other.err.String(), fmt.Sprintf("coppice: a daemon is already running for %s: process %d, since ", dir, r.Process.Pid); !strings.HasPrefix(got, want) || other.out.String() != "" {
				t.Errorf("%q and %q, want %q", other.out, got, want)
			}
			r.signal(syscall.SIGTERM)
			r.wantExit(map[string]int{"run": 143, "up": 0}[first])
		})
	}
}

// A run starts with fresh numbers, limits and stops; only the logs continue. It leaves nothing
// else.
func TestRunBeginsAfresh(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("fails", `echo "in life $COPPICE_INCARNATION"; exit 1`, `restart = "on-failure"`, `max_restarts = 2`, `on_limit = "give_up"`),
		agentTOML("stopped", sleeper))
	f.up()
	f.do("stop", "stopped")
	gaveUp := f.awaitState("t/fails", "given_up")
	if gaveUp.Incarnation != 3 {
		t.Errorf("%+v", gaveUp)
	}
	f.do("down")
	for range 2 {
		r := launch(t, f.dir, "run")
		r.out.awaitText(t, "t/stopped | up ")
		r.out.awaitText(t, "t/fails * limit reached")
		for n := 1; n <= 3; n++ {
			if c := strings.Count(r.out.String(), fmt.Sprintf("t/fails | in life %d\n", n)); c != 1 {
				t.Errorf("life %d is there %d times:\n%s", n, c, r.out)
			}
		}
		r.signal(syscall.SIGINT)
		r.wantExit(130)
		var left []string
		filepath.WalkDir(filepath.Join(f.dir, ".coppice"), func(path string, d os.DirEntry, err error) error {
			if name := d.Name(); strings.Contains(name, "sock") && !d.IsDir() || strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-shm") {
				left = append(left, path)
			}
			return err
		})
		if len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	// A later daemon starts with fresh limits, and numbers continue.
	f.up()
	if n := f.awaitState("t/fails", "given_up"); n.Incarnation != 6 {
		t.Errorf("%+v", n)
	}
	if out := f.do("logs", "fails"); strings.Count(out, "in life 1\n") != 3 || strings.Count(out, "in life 6\n") != 1 {
		t.Errorf("the logs of all lives:\n%s", out)
	}
}

// A directory that cannot hold state is reported, with a remedy.
func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", sleeper))
	write(t, filepath.Join(dir, ".coppice"), "in the way")
	for _, command := range []string{"run", "up"} {
		r := launch(t, dir, command)
		r.wantExit(1)
		want := regexp.MustCompile(`^coppice: nothing can be kept in ` + dir + `/\.coppice, .* \(.*not a directory\); make ` + dir + ` writable, or copy the project to a directory that is\n$`)
		if !want.MatchString(r.err.String()) {
			t.Errorf("%s: %q", command, r.err)
		}
	}
}

// All output of an agent is shown once and in order, including its last lines, even if the reader
// is slower.
func TestNoLineIsLost(t *testing.T) {
	t.Parallel()
	const n = 100_000
	dir := project(t,
		agentTOML("a", fmt.Sprintf("seq %d; printf 'the end'; exit 1", n), `restart = "on-failure"`, `max_restarts = 1`, `on_limit = "give_up"`),
		agentTOML("b", fmt.Sprintf("seq %d >&2", n), `restart = "never"`))
	r := newCoppice(t, "run")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r.Stdout = write
	r.start(dir)
	write.Close()
	next := map[string]int{}
	ends := 0
	for lines := bufio.NewScanner(read); lines.Scan(); {
		path, text, ok := strings.Cut(lines.Text(), " | ")
		switch {
		case !ok:
		case text == "the end":
			ends++
			if next[path] != n {
				t.Fatalf("%s ends after line %d", path, next[path])
			}
			next[path] = 0
		default:
			if next[path]++; text != fmt.Sprint(next[path]) {
				t.Fatalf("%s: %q where %d is due", path, text, next[path])
			}
		}
	}
	r.wantExit(0)
	if ends != 2 || next["t/a"] != 0 || next["t/b"] != n {
		t.Errorf("%d ends, then %v", ends, next)
	}
}

// Output of agents in tmux is shown from the first line to the last.
func TestRunInTmux(t *testing.T) {
	needTmux(t)
	t.Parallel()
	dir := project(t,
		agentTOML("a", `echo "in life $COPPICE_INCARNATION"; [ $COPPICE_INCARNATION = 1 ] && exit 1; seq 5; echo last`, inTmux, `restart = "on-failure"`),
		agentTOML("b", polite, inTmux))
	for range 2 {
		r := launch(t, dir, "run")
		r.out.awaitText(t, "t/b | up ")
		r.out.awaitText(t, "t/a | last\n")
		if got, want := strings.Count(r.out.String(), "t/a | "), 8; got != want {
			t.Errorf("%d lines of a, want %d:\n%s", got, want, r.out)
		}
		r.signal(syscall.SIGTERM)
		r.wantExit(143)
		if !strings.Contains(r.out.String(), "t/b | bye\n") || strings.Contains(r.out.String(), "in life 3") {
			t.Errorf("it says:\n%s", r.out)
		}
		for _, p := range processesIn(t, dir) {
			p.awaitEnd(t)
		}
	}
}
