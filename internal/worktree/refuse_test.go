package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// What is written while a worktree is removed is parked, too.
func TestRemoveWhileItChanges(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	w := p.create("t", 1)
	changed := false
	p.repo.step = func(name string) {
		if name == "marked" && !changed {
			changed = true
			p.writeIn(w.Path, "late", "file")
		}
	}
	if removed := p.remove(w); !changed || p.show(removed.Parked, "late") != "file" {
		t.Errorf("a late file is lost: %+v", removed)
	}
	w = p.create("t", 2)
	late := p.at(p.dir, "commit-tree", "main^{tree}", "-p", "main", "-m", "late")
	p.repo.step = func(name string) {
		if name == "cleared" {
			p.at(p.dir, "update-ref", "refs/heads/coppice/t-2", late)
		}
	}
	if removed := p.remove(w); p.at(p.dir, "rev-parse", removed.Parked+"^") != late {
		t.Errorf("a late commit is lost: %+v", removed)
	}
	w = p.create("t", 3)
	p.repo.step = func(name string) {
		if name == "marked" {
			changed = !changed
			p.writeIn(w.Path, "late", fmt.Sprint(time.Now()))
		}
	}
	if _, err := p.repo.Remove(t.Context(), w.Attempt); !errors.Is(err, ErrInUse) {
		t.Errorf("it changes all the time: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.Path, "late")); err != nil {
		t.Error(err)
	}
}

// A user without privileges can remove what it may not read or change now.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("all tests run without privileges")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "unprivileged") // those of t are in a directory of root alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	exectest.Write(t, filepath.Join(dir, "test"), string(program))
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^TestR18.*/^(read-only|unreadable)$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: TestR18") != 3 {
		t.Errorf("%v: %s", err, out)
	}
}

// A list of all worktrees, which another worker makes, does not use them.
func TestRemoveWhileListed(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	ctx, stop := context.WithCancel(t.Context())
	var listing sync.WaitGroup
	defer listing.Wait()
	defer stop()
	for range 2 {
		listing.Go(func() {
			for ctx.Err() == nil {
				p.repo.List(ctx)
			}
		})
	}
	for n := range 20 {
		w, err := p.repo.Create(t.Context(), Attempt{"t", n + 1, "main"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Release(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.repo.Remove(t.Context(), w.Attempt); err != nil {
			t.Fatal(err)
		}
	}
}

// A worktree in use is not removed.
func TestRemoveInUse(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	w, err := p.repo.Create(t.Context(), Attempt{"t", 1, "main"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.repo.Remove(t.Context(), w.Attempt); !errors.Is(err, ErrInUse) {
		t.Errorf("with a lease: %v", err)
	}
	if err := w.Release(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat")
	cmd.Dir = filepath.Join(w.Path, "b")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.repo.Remove(t.Context(), w.Attempt); !errors.Is(err, ErrInUse) {
		t.Errorf("with a process: %v", err)
	}
	if err := errors.Join(input.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	// What an attempt has started may end some moments after it.
	last := exec.Command("sleep", "0.1")
	last.Dir = w.Path
	if err := last.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- last.Wait() }()
	p.remove(w)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A removal does not follow a link in place of the worktree or in it.
func TestRemoveThroughLink(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	outside := t.TempDir()
	p.writeIn(outside, "file", "x")
	w := p.create("t", 1)
	if err := os.Symlink(outside, filepath.Join(w.Path, "link")); err != nil {
		t.Fatal(err)
	}
	p.remove(w)
	w = p.create("t", 2)
	if err := errors.Join(os.RemoveAll(w.Path), os.Symlink(outside, w.Path)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.repo.Remove(t.Context(), w.Attempt); err == nil {
		t.Error("a link is removed as a worktree")
	}
	if _, err := os.Lstat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
}
