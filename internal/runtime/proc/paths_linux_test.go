package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/landlock/landlocktest"
	"github.com/coppice-dev/coppice/supervisor"
)

// limited returns a shell script in a new directory with a writable directory "work".
func limited(t *testing.T, script string) (cmd Command, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd = sh(script)
	cmd.Dir, cmd.Paths = dir, landlock.New([]string{filepath.Join(dir, "work")}, nil)
	return cmd, dir
}

// What a process has started stays limited when the process has ended, also in another session.
func TestDetachedChildStaysLimited(t *testing.T) {
	landlocktest.Need(t)
	cmd, dir := limited(t, `
setsid sh -c 'echo away > work/away; read go < work/go; echo x > outside; echo code $? > work/answer' >/dev/null 2>&1 &
read away < work/away`) // before that, it would be killed with the group
	for _, name := range []string{"away", "go", "answer"} {
		if err := syscall.Mkfifo(filepath.Join(dir, "work", name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Start(cmd, Output{})
	if err != nil {
		t.Fatal(err)
	}
	if exit := p.Wait(); exit.Kind != supervisor.Normal {
		t.Fatal(exit)
	}
	if err := os.WriteFile(filepath.Join(dir, "work", "go"), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	answer, err := os.ReadFile(filepath.Join(dir, "work", "answer"))
	if err != nil || !strings.HasPrefix(string(answer), "code ") || string(answer) == "code 0\n" {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "outside")); err == nil {
		t.Error("it could write outside")
	}
}

// Standard streams are open, and can be opened again.
func TestLimitedStreams(t *testing.T) {
	landlocktest.Need(t)
	for _, terminal := range []*Size{nil, {}} {
		cmd, dir := limited(t, `echo a; echo b > /dev/stdout; echo c > /dev/null; (echo e > /dev/tty) 2>/dev/null
test -t 1 && stty size && stty -F "$(tty)" size; echo d > work/d; true`)
		cmd.Terminal = terminal
		p, err := Start(cmd, Output{})
		if err != nil {
			t.Fatal(err)
		}
		if exit := p.Wait(); exit.Kind != supervisor.Normal {
			t.Errorf("%v: %q", exit, p.LastOutput())
		}
		<-p.Drained()
		want := "a b"
		if terminal != nil {
			want = "a b e 24 80 24 80"
		}
		if got := strings.Join(p.LastOutput(), " "); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
		if _, err := os.Stat(filepath.Join(dir, "work/d")); err != nil {
			t.Error(err)
		}
	}
}

// A process that cannot be limited is not started.
func TestNotStartedWithoutLimits(t *testing.T) {
	start := func(t *testing.T, cmd Command, want error) {
		p, err := Start(cmd, Output{})
		if err == nil {
			p.Kill()
			p.Wait()
		}
		if !errors.Is(err, ErrCommand) || !errors.Is(err, want) {
			t.Errorf("%v, expected %v", err, want)
		}
	}
	cmd, dir := limited(t, "echo x > work/started")
	landlocktest.Without(t, func() { start(t, cmd, landlock.ErrUnsupported) })
	landlocktest.Need(t)
	missing := cmd
	missing.Paths = landlock.New([]string{filepath.Join(dir, "none"), filepath.Join(dir, "work")}, nil)
	start(t, missing, os.ErrNotExist)
	if _, err := os.Stat(filepath.Join(dir, "work/started")); err == nil {
		t.Error("it was started")
	}
}
