package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// waitTimeout is longer than any test waits for something that happens.
const waitTimeout = time.Minute

func shell(t *testing.T, script string, timeout time.Duration) Check {
	t.Helper()
	return Check{
		Argv: []string{"/bin/sh", "-c", script}, Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH"), "WHO=me"},
		Mark: t.Name() + "@" + strconv.Itoa(os.Getpid()), Timeout: timeout,
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script, want string }{
		{"answers", "echo 3", "3"},
		{"with noise beside it", "echo careful >&2; echo 2; exit 0", "2"},
		{"has its environment", `test "$WHO" = me && test -n "$COPPICE_CHECK" && echo 1`, "1"},
		{"reads nothing", "cat; echo 1", "1"},
		{"fails", "echo 3; echo no queue >&2; exit 4", `exit code 4: "no queue"`},
		{"dies", "echo 3; kill -9 $$", "killed: ended by SIGKILL"},
		{"says nothing", "true", "it has printed nothing, expected an integer"},
		{"prints rubbish", "echo many; printf 'a\\n\\033[1mhm\\n' >&2", `it has printed "many", expected an integer: "hm"`},
		{"floods", "yes", fmt.Sprintf("too much output: more than %d bytes on stdout", maxOutput)},
		{"floods stderr", "yes >&2", fmt.Sprintf("too much output: more than %d bytes on stderr", maxOutput)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n, err := NewRunner(t.Name()).Run(t.Context(), shell(t, tt.script, waitTimeout))
			got := strconv.Itoa(n)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want && !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRunMissing(t *testing.T) {
	t.Parallel()
	c := shell(t, "", waitTimeout)
	c.Argv = []string{"./nothing"}
	if _, err := NewRunner(t.Name()).Run(t.Context(), c); !errors.Is(err, proc.ErrCommand) {
		t.Errorf("got %v", err)
	}
}

// left returns the processes, of those whose ids are in a file, that stay alive. A killed process
// takes a moment to end.
func left(t *testing.T, file string) (alive []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(strings.Fields(string(text))) == 0 {
		t.Fatal("the check has started nothing")
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		id, err := proc.Identify(pid)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		if id.AwaitDeath(ctx) != nil {
			alive = append(alive, word)
		}
		cancel()
	}
	return alive
}

// startChildren starts a process in the group of the check and one in a session of its
// own, neither of which is in the middle of an exec when it goes on.
const startChildren = `mkfifo never; sh -c 'echo $$ >> pids; : > one; read x < never' & setsid sh -c 'echo $$ >> pids; : > two; read x < never' &
	while ! test -e one || ! test -e two; do sleep 0.01; done; : > up; `

// All processes that a check has started end with it, whether it exits, exceeds its timeout or is
// canceled.
func TestRunLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("ends", func(t *testing.T) {
		t.Parallel()
		c := shell(t, startChildren+"echo 5", waitTimeout)
		if n, err := NewRunner(t.Name()).Run(t.Context(), c); n != 5 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		if alive := left(t, filepath.Join(c.Dir, "pids")); alive != nil {
			t.Errorf("%v are left", alive)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		c := shell(t, startChildren+"echo 5; wait", 3*time.Second)
		_, err := NewRunner(t.Name()).Run(t.Context(), c)
		if err == nil || err.Error() != "it has not ended within 3s" {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(filepath.Join(c.Dir, "up")); err != nil {
			t.Skip("the machine was too busy for the check to get as far as it should")
		}
		if alive := left(t, filepath.Join(c.Dir, "pids")); alive != nil {
			t.Errorf("%v are left", alive)
		}
	})
	t.Run("is given up", func(t *testing.T) {
		t.Parallel()
		c := shell(t, startChildren+"wait", waitTimeout)
		enough := errors.New("the controller ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				if _, err := os.Stat(filepath.Join(c.Dir, "up")); err == nil {
					break
				}
			}
			cancel(enough)
		}()
		if _, err := NewRunner(t.Name()).Run(ctx, c); !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
		if alive := left(t, filepath.Join(c.Dir, "pids")); alive != nil {
			t.Errorf("%v are left", alive)
		}
	})
}

// Clear ends the processes of checks of a killed daemon, and no others.
func TestClear(t *testing.T) {
	t.Parallel()
	c := shell(t, `kill -0 $(cat pids) 2>/dev/null && echo 1 || echo 0`, waitTimeout)
	start := func(mark string) *proc.Process {
		p, err := proc.Start(proc.Command{Argv: []string{"sleep", "600"}, Env: append(c.Env, envChecks+"="+mark)}, proc.Output{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	stray, other := start(c.Mark), start(c.Mark+"2")
	defer stray.Kill()
	defer other.Kill()
	if err := os.WriteFile(filepath.Join(c.Dir, "pids"), fmt.Append(nil, stray.PID()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := NewRunner(c.Mark)
	if err := r.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-stray.Done()
	if n, err := r.Run(t.Context(), c); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	select {
	case <-other.Done():
		t.Error("what belongs to another project was ended, too")
	default:
	}
}

// TestRunConcurrently: checks do not wait for each other.
func TestRunConcurrently(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), NewRunner(t.Name())
	answers := make(chan error, 2)
	for _, script := range []string{"touch a; while ! test -e b; do sleep 0.01; done; echo 1", "touch b; while ! test -e a; do sleep 0.01; done; echo 1"} {
		c := shell(t, script, waitTimeout)
		c.Dir = dir
		c.Mark += script[:7]
		go func() {
			_, err := r.Run(t.Context(), c)
			answers <- err
		}()
	}
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
