package git

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// newRunner returns a Runner on a new repository, and the lines of git's own trace: one for each command that starts.
func newRunner(t *testing.T) (Runner, trace) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "trace")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(pipe, os.O_RDWR, 0) // also for writing, so that git never waits for a reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	work := t.TempDir()
	r := Runner{Dir: filepath.Join(work, ".git"), Work: work, Env: []string{
		"HOME=" + work, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x", "GIT_COMMITTER_NAME=x",
		"GIT_COMMITTER_EMAIL=x",
	}}
	if _, err := (Runner{Env: r.Env}).Run(t.Context(), "init", "-q", "--template=", work); err != nil {
		t.Fatal(err)
	}
	r.Env = append(r.Env, "GIT_TRACE="+pipe)
	return r, trace{bufio.NewScanner(file), file}
}

// trace is the trace of git. Closing it ends a wait.
type trace struct {
	*bufio.Scanner
	*os.File
}

// await reads the trace until a command has started n times.
func (tr trace) await(t *testing.T, command string, n int) {
	t.Helper()
	for n > 0 && tr.Scan() {
		if strings.Contains(tr.Text(), "built-in: git "+command) {
			n--
		}
	}
	if n > 0 {
		t.Error("it was not repeated")
	}
}

// A command waits for each kind of lock file that another one holds.
func TestWaitsForLock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lock, input, args string }{
		{".git/config.lock", "", "config a.b c"},
		{".git/index.lock", "", "read-tree --empty"},
		{".git/refs/heads/x.lock", "", "update-ref refs/heads/x COMMIT"},
		{".git/packed-refs.lock", "", "pack-refs --all"},
	} {
		t.Run(c.lock, func(t *testing.T) {
			t.Parallel()
			r, trace := newRunner(t)
			tree, err := r.Line(t.Context(), "mktree")
			if err != nil {
				t.Fatal(err)
			}
			commit, err := r.Line(t.Context(), "commit-tree", "-m", "x", tree)
			if err != nil {
				t.Fatal(err)
			}
			lock := filepath.Join(r.Work, c.lock)
			if err := os.WriteFile(lock, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			args := strings.Fields(strings.ReplaceAll(c.args, "COMMIT", commit))
			done := make(chan error, 1)
			go func() {
				_, err := r.Run(t.Context(), args...)
				if err != nil {
					trace.Close()
				}
				done <- err
			}()
			trace.await(t, args[0], 2) // it was refused once
			os.Remove(lock)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// What a command reads is there again when it is repeated, and the end of the context ends the wait.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	r, trace := newRunner(t)
	lock := filepath.Join(r.Work, ".git", "index.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	input := "100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\ta\x00"
	run := func(ctx context.Context) {
		_, err := r.RunWith(ctx, input, "update-index", "-z", "--index-info")
		done <- err
	}
	go run(ctx)
	trace.await(t, "update-index", 2)
	why := errors.New("enough")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	go run(t.Context())
	trace.await(t, "update-index", 3)
	os.Remove(lock)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if names, err := r.Names(t.Context(), "ls-files", "-z"); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// A lock that stays is an error after LockTimeout, and another failure at once.
func TestRetryLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, broken := 0, errors.New("broken")
		began := time.Now()
		err := RetryLocked(t.Context(), func() (bool, error) { tries++; return true, broken })
		took := time.Since(began)
		if !errors.Is(err, broken) || took < LockTimeout || took > LockTimeout+maxLockPause || tries < 100 {
			t.Errorf("%v, %d times in %v", err, tries, took)
		}
		tries = 0
		if err := RetryLocked(t.Context(), func() (bool, error) { tries++; return false, broken }); err != broken ||
			tries != 1 {
			t.Errorf("%v, %d times", err, tries)
		}
	})
}

// Hooks of the repository do not run, and the network is out of reach unless it is asked for.
func TestRunnerRunsNothingElse(t *testing.T) {
	t.Parallel()
	r, _ := newRunner(t)
	hook := filepath.Join(r.Dir, "hooks", "post-commit")
	if err := os.MkdirAll(filepath.Dir(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n: >ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), "commit", "-q", "--allow-empty", "-m", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.Work, "ran")); err == nil {
		t.Error("a hook has run")
	}
	if _, err := r.Run(t.Context(), "ls-remote", r.Dir); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("%v", err)
	}
	r.Network = true
	if out, err := r.Run(t.Context(), "ls-remote", r.Dir); err != nil || !strings.Contains(out, "HEAD") {
		t.Errorf("%q, %v", out, err)
	}
}
