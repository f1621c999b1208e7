package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/exectest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func command(t *testing.T, args ...string) Command {
	t.Helper()
	return Command{Args: args, Dir: t.TempDir(), Env: append(Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1")}
}

func TestOutput(t *testing.T) {
	out, err := command(t, "hash-object", "--stdin").Output(t.Context())
	if err != nil || strings.TrimSpace(out) != "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = command(t, "-c", "a.b=c", "--no-pager", "rev-parse", "HEAD").Output(t.Context())
	var failed *Error
	if !errors.As(err, &failed) || failed.Command != "rev-parse" || ExitCode(err) != 128 ||
		!strings.Contains(err.Error(), "git rev-parse: fatal: not a git repository") {
		t.Errorf("%v", err)
	}
}

// What reads the output may fail, which ends the command, and need not read all of it.
func TestRead(t *testing.T) {
	c := command(t, "help", "-a")
	broken := errors.New("broken")
	if err := c.Read(t.Context(), func(io.Reader) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if err := c.Read(t.Context(), func(r io.Reader) error {
		_,
			err := io.ReadFull(r, make([]byte, 10))
		return err
	}); err != nil {
		t.Errorf("%v", err)
	}
}

// A command that hangs is ended with everything that it has started, and what it writes to standard error is bounded.
func TestEnds(t *testing.T) {
	dir := t.TempDir()
	exectest.Write(t, filepath.Join(dir, "git"), `#!/bin/sh
head -c 100000 /dev/zero | tr '\0' x >&2
sleep 1000 &
echo started
wait
`)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("enough")
	begun := time.Now()
	err := command(t, "gc").Read(ctx, func(r io.Reader) error {
		_, err := io.ReadFull(r, make([]byte, len("started")))
		cancel(why)
		return err
	})
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, why) || len(failed.Stderr) > maxStderr ||
		time.Since(begun) > waitDelay {
		t.Errorf("after %v, %d bytes: %.100v ... %v", time.Since(begun), len(failed.Stderr), err, failed.Err)
	}
}

// No variable of this process names a repository.
func TestEnviron(t *testing.T) {
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND",
		"SECRET"} {
		t.Setenv(name, "x")
		if slices.ContainsFunc(Environ(), func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			t.Errorf("%s is passed on", name)
		}
	}
	t.Setenv("HOME", "/home/x")
	if !slices.Contains(Environ(), "HOME=/home/x") {
		t.Errorf("%v", fmt.Sprint(Environ()))
	}
}
