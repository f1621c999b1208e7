package worktree

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// crashAt names the variable that makes this program kill itself. Its value is STEP|create|DIRECTORY or
// STEP|remove|DIRECTORY.
const crashAt = "WORKTREE_TEST_CRASH"

// crash makes or removes an attempt, and kills this process with SIGKILL at a step.
func crash(how string) int {
	fields := strings.SplitN(how, "|", 3)
	ctx := context.Background()
	r, err := Open(ctx, fields[2], crashOptions())
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	r.step = func(name string) {
		if name == fields[0] {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	if fields[1] == "create" {
		_, err = r.Create(ctx, crashed)
	} else {
		_, err = r.Remove(ctx, crashed)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

var crashed = Attempt{"t", 1, "main"}

func crashOptions() Options {
	setUp := func(w Worktree, _ []string) error {
		return os.WriteFile(filepath.Join(w.Path, "ignored"), nil, 0o644)
	}
	return Options{Ports: PortRange{20000, 40000, 1}, SetUp: []string{"make"}, Runner: runner(setUp)}
}

// kill runs crash in another process and checks that it was killed.
func (p *place) kill(step, what string) {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashAt+"="+step+"|"+what+"|"+p.dir)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		p.Fatalf("%s was not killed at %q: %v %s", what, step, err, out)
	}
}

// steps returns the names of the steps of a function.
func (p *place) steps(do func()) (all []string) {
	p.repo.step = func(name string) { all = append(all, name) }
	defer func() { p.repo.step = func(string) {} }()
	do()
	return all
}

// newCrashPlace makes a place with what crash expects: git ignores the file of the set-up.
func newCrashPlace(t *testing.T) *place {
	p := newPlace(t, Options{})
	p.write(".gitignore", "ignored\n")
	p.write(".worktreeinclude", "ignored\n")
	p.at(p.dir, "add", "-A")
	p.at(p.dir, "commit", "-qm", "second")
	p.open(crashOptions())
	return p
}

// A process that makes a worktree is killed at each step. The next Create returns a whole one; Repair
// and Remove leave nothing.
func TestKilledInCreate(t *testing.T) {
	t.Parallel()
	p := newCrashPlace(t)
	steps := p.steps(func() { p.create("t", 1) })
	if len(steps) < 8 {
		t.Fatalf("only the steps %q", steps)
	}
	for _, step := range steps {
		for _, then := range []string{"create", "repair", "remove"} {
			t.Run(step+", "+then, func(t *testing.T) {
				t.Parallel()
				p := newCrashPlace(t)
				p.kill(step, "create")
				w := &Worktree{Attempt: crashed}
				if then == "repair" {
					if _, err := p.repo.Repair(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if then != "remove" {
					w = p.create("t", 1)
					if err := p.repo.Check(t.Context(), crashed); err != nil {
						t.Error(err)
					}
					if _, err := os.Stat(filepath.Join(w.Path, "ignored")); err != nil || len(w.Ports) != 1 {
						t.Errorf("it is not complete: %v, ports %d", err, w.Ports)
					}
				}
				p.remove(w)
				if refs := p.parked(); len(refs) != 0 {
					t.Errorf("parked %q, although there was no work", refs)
				}
			})
		}
	}
}

// A process that removes a worktree with work is killed at each step. The work is never lost, and
// kept once.
func TestKilledInRemove(t *testing.T) {
	t.Parallel()
	work := func(p *place) *Worktree {
		w := p.create("t", 1)
		p.writeIn(w.Path, "committed", "x")
		p.at(w.Path, "add", "-A")
		p.at(w.Path, "commit", "-qm", "work")
		p.writeIn(w.Path, "a", "staged")
		p.at(w.Path, "add", "a")
		p.writeIn(w.Path, "a", "later")
		p.writeIn(w.Path, "new/file", "x")
		return w
	}
	p := newCrashPlace(t)
	w := work(p)
	steps := p.steps(func() { p.remove(w) })
	if len(steps) < 9 {
		t.Fatalf("only the steps %q", steps)
	}
	for _, step := range steps {
		for _, then := range []string{"create", "repair", "remove"} {
			t.Run(step+", "+then, func(t *testing.T) {
				t.Parallel()
				p := newCrashPlace(t)
				w := work(p)
				p.kill(step, "remove")
				if then == "repair" {
					if _, err := p.repo.Repair(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if then == "create" {
					if w, err := p.repo.Create(t.Context(), crashed); err == nil { // ready still, or made again
						w.Release()
					} else {
						t.Error(err)
					}
				}
				p.remove(w)
				refs := p.parked()
				if len(refs) != 1 {
					t.Fatalf("parked %q", refs)
				}
				for file, want := range map[string]string{"a": "later", "committed": "x", "new/file": "x", "b/c": "2"} {
					if got := p.show(refs[0], file); got != want {
						t.Errorf("%s is %q, expected %q", file, got, want)
					}
				}
				if got := p.show(refs[0]+"^2", "a"); got != "staged" {
					t.Errorf("what was staged is %q", got)
				}
			})
		}
	}
}
