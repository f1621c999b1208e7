package worktree

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// runner runs a function as the set-up command.
type runner func(w Worktree, argv []string) error

func (r runner) Run(_ context.Context, w Worktree, argv []string) error { return r(w, argv) }

// A worktree whose set-up fails is removed.
func TestSetUp(t *testing.T) {
	t.Parallel()
	fails := true
	p := newPlace(t, Options{SetUp: []string{"make", "deps"}, Runner: runner(func(w Worktree, argv []string) error {
		if !slices.Equal(argv, []string{"make", "deps"}) || len(w.Ports) != 1 {
			t.Errorf("%q, ports %d", argv, w.Ports)
		}
		if err := os.WriteFile(filepath.Join(w.Path, "made"), nil, 0o644); err != nil {
			return err
		}
		if fails {
			return errors.New("no network")
		}
		return nil
	}), Ports: PortRange{20000, 40000, 1}})
	a := Attempt{"t", 1, "main"}
	if _, err := p.repo.Create(t.Context(), a); err == nil || !strings.Contains(err.Error(), "no network") {
		t.Errorf("%v", err)
	}
	p.gone(&Worktree{Attempt: a})
	fails = false
	p.create("t", 1)
}

// Files that are ignored and named by .worktreeinclude are copied; nothing else is.
func TestInclude(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	p.write(".worktreeinclude", "*.env\n/ignored/keep\nlink*\nnew\n*.secret\n!no.env\n.coppice/\nfifo.env\na\n")
	p.write(".gitignore", "ignored/\n*.env\nlink*\n")
	p.at(p.dir, "add", "-A")
	p.at(p.dir, "commit", "-qm", "second")
	for _, name := range []string{
		"x.env", "deep/y.env", "no.env", "ignored/keep/z", "ignored/other", "new", "b.secret", "line\nbreak.env",
		":(top)q.env",
	} {
		p.write(name, "text of "+name)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	p.writeIn(filepath.Dir(outside), "outside", "private")
	for name, to := range map[string]string{
		"link-out": outside, "link-up": "../../x", "link-in": "x.env", "link-loop": "link-loop", "link-dir": "b",
	} {
		if err := os.Symlink(to, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(p.dir, "x.env"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := p.create("t", 1)
	for name, want := range map[string]string{
		"x.env": "text of x.env", "deep/y.env": "text of deep/y.env", "ignored/keep/z": "text of ignored/keep/z",
		"line\nbreak.env": "text of line\nbreak.env", ":(top)q.env": "text of :(top)q.env", "link-in": "text of x.env",
		"link-dir/c": "2\n", "a": "1\n",
	} {
		if text, err := os.ReadFile(filepath.Join(w.Path, name)); err != nil || string(text) != want {
			t.Errorf("%q is %q, %v", name, text, err)
		}
	}
	for _, name := range []string{
		"no.env", "ignored/other", "new", "b.secret", "link-out", "link-up", "link-loop", ".coppice", includeTemporary,
	} {
		if _, err := os.Lstat(filepath.Join(w.Path, name)); err == nil {
			t.Errorf("%q is copied", name)
		}
	}
	if info, err := os.Stat(filepath.Join(w.Path, "x.env")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if removed := p.remove(w); removed.Parked != "" {
		t.Errorf("copied files are parked: %+v", removed)
	}
	// A file that would fill the disk is refused.
	if err := os.Truncate(filepath.Join(p.dir, "x.env"), maxIncludedBytes+1); err != nil {
		t.Fatal(err)
	}
	_, err := p.repo.Create(t.Context(), Attempt{"t", 2, "main"})
	if err == nil || !strings.Contains(err.Error(), "x.env") {
		t.Errorf("%v", err)
	}
}

// No two worktrees share a port, and those of a removed one are given again.
func TestPorts(t *testing.T) {
	t.Parallel()
	var busy net.Listener
	first := 12000 // below those that the kernel gives to others
	for err := errors.New(""); err != nil; {
		first += 50
		busy, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(first))
	}
	defer busy.Close()
	p := newPlace(t, Options{Ports: PortRange{first, first + 40, 2}})
	one, two := p.create("t", 1), p.create("t", 2)
	if all := slices.Concat(one.Ports, two.Ports); len(all) != 4 || slices.Contains(all, first) ||
		len(slices.Compact(slices.Sorted(slices.Values(all)))) != 4 {
		t.Errorf("ports %d and %d, %d is taken", one.Ports, two.Ports, first)
	}
	if again := p.create("t", 1); !slices.Equal(again.Ports, one.Ports) {
		t.Errorf("ports %d, then %d", one.Ports, again.Ports)
	}
	p.remove(one)
	if three := p.create("t", 3); !slices.Equal(three.Ports, one.Ports) {
		t.Errorf("ports %d of a removed worktree are not given again: %d", one.Ports, three.Ports)
	}
	p.open(Options{Ports: PortRange{first, first, 1}})
	if _, err := p.repo.Create(t.Context(), Attempt{"t", 4, "main"}); err == nil {
		t.Error("a port that is taken is given")
	}
	p.gone(&Worktree{Attempt: Attempt{Task: "t", Number: 4}})
}
