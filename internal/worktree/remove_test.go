package worktree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/git/gittest"
)

// R18: a dirty worktree is never deleted without a parked ref. Each case makes a worktree dirty in one
// way, and says what the parked commit must have.
func TestR18DirtyWorktreeIsNeverDeletedWithoutAParkedRef(t *testing.T) {
	t.Parallel()
	const text = "work\n"
	remove := func(p *place, path string) {
		if err := os.Remove(path); err != nil {
			p.Fatal(err)
		}
	}
	chmod := func(p *place, path string, mode os.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			p.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		dirty func(p *place, dir string)
		files map[string]string // in the parked commit; "none" if it is missing there
	}{
		"modified": {func(p *place, dir string) { p.writeIn(dir, "a", text) },
			map[string]string{"a": "work", "b/c": "2"}},
		"untracked": {func(p *place, dir string) { p.writeIn(dir, "new/deep/file", text) },
			map[string]string{"new/deep/file": "work", "a": "1"}},
		"staged": {func(p *place, dir string) {
			p.writeIn(dir, "new", text)
			p.at(dir, "add", "new")
		}, map[string]string{"new": "work"}},
		"deleted": {func(p *place, dir string) { remove(p, filepath.Join(dir, "a")) },
			map[string]string{"a": "none", "b/c": "2"}},
		"staged removal": {func(p *place, dir string) { p.at(dir, "rm", "-q", "a") }, map[string]string{"a": "none"}},
		"renamed": {func(p *place, dir string) { p.at(dir, "mv", "a", "z") },
			map[string]string{"a": "none", "z": "1"}},
		"newline in name": {func(p *place, dir string) { p.writeIn(dir, "x\ny\t\"'é", text) },
			map[string]string{"x\ny\t\"'é": "work"}},
		"odd names": {func(p *place, dir string) {
			p.writeIn(dir, ":(exclude)a", text)
			p.writeIn(dir, "-rf", text)
			p.writeIn(dir, "*", text)
		}, map[string]string{":(exclude)a": "work", "-rf": "work", "*": "work"}},
		"file in place of a directory": {func(p *place, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "b")); err != nil {
				p.Fatal(err)
			}
			p.writeIn(dir, "b", text)
		}, map[string]string{"b": "work"}},
		"links": {func(p *place, dir string) {
			for name, to := range map[string]string{"loop": "loop", "up": "../..", "root": "/", "dangling": "nowhere"} {
				if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
					p.Fatal(err)
				}
			}
		}, map[string]string{"loop": "loop", "up": "../..", "root": "/", "dangling": "nowhere"}},
		"assumed unchanged": {func(p *place, dir string) {
			p.at(dir, "update-index", "--assume-unchanged", "a")
			p.at(dir, "update-index", "--skip-worktree", "b/c")
			p.writeIn(dir, "a", text)
			p.writeIn(dir, "b/c", text)
		}, map[string]string{"a": "work", "b/c": "work"}},
		"detached head": {func(p *place, dir string) {
			p.at(dir, "checkout", "-q", "--detach")
			p.writeIn(dir, "a", text)
		}, map[string]string{"a": "work"}},
		"unborn branch": {func(p *place, dir string) {
			p.at(dir, "checkout", "-q", "--orphan", "other")
			p.writeIn(dir, "a", text)
		}, map[string]string{"a": "work"}},
		"broken index": {func(p *place, dir string) {
			p.writeIn(dir, "a", text)
			p.write(".git/worktrees/t-1/index", "garbage")
		}, map[string]string{"a": "work", "b/c": "2"}},
		"no index": {func(p *place, dir string) {
			p.writeIn(dir, "a", text)
			remove(p, filepath.Join(p.dir, ".git/worktrees/t-1/index"))
		}, map[string]string{"a": "work", "b/c": "2"}},
		"no .git file": {func(p *place, dir string) {
			p.writeIn(dir, "a", text)
			remove(p, filepath.Join(dir, ".git"))
		}, map[string]string{"a": "work"}},
		"broken HEAD": {func(p *place, dir string) {
			p.writeIn(dir, "a", text)
			p.write(".git/worktrees/t-1/HEAD", "garbage")
		}, map[string]string{"a": "work"}},
		"unknown to git": {func(p *place, dir string) {
			p.writeIn(dir, "a", text)
			if err := os.RemoveAll(filepath.Join(p.dir, ".git/worktrees/t-1")); err != nil {
				p.Fatal(err)
			}
		}, map[string]string{"a": "work"}},
		"index lock": {func(p *place, dir string) {
			p.writeIn(dir, "a", text)
			p.write(".git/worktrees/t-1/index.lock", "")
		}, map[string]string{"a": "work"}},
		"locked": {func(p *place, dir string) {
			p.writeIn(dir, "a", text)
			p.at(p.dir, "worktree", "lock", dir)
		}, map[string]string{"a": "work"}},
		"read-only": {func(p *place, dir string) {
			p.writeIn(dir, "ro/file", text)
			chmod(p, filepath.Join(dir, "ro/file"), 0o400)
			chmod(p, filepath.Join(dir, "ro"), 0o500)
		}, map[string]string{"ro/file": "work"}},
		"unreadable": {func(p *place, dir string) {
			p.writeIn(dir, "no/file", text)
			chmod(p, filepath.Join(dir, "no/file"), 0)
			chmod(p, filepath.Join(dir, "no"), 0)
		}, map[string]string{"no/file": "work"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, Options{})
			w := p.create("t", 1)
			c.dirty(p, w.Path)
			removed := p.remove(w)
			if refs := p.parked(); len(refs) != 1 || refs[0] != removed.Parked || removed.Parked != parkedRefs+"t-1" {
				t.Fatalf("parked %q, returned %q", refs, removed.Parked)
			}
			for file, want := range c.files {
				if got := p.show(removed.Parked, file); got != want {
					t.Errorf("%q is %q in the parked commit, expected %q", file, got, want)
				}
			}
			if text, err := os.ReadFile(filepath.Join(p.dir, "a")); string(text) != "1\n" {
				t.Errorf("the work tree of the user has changed: %q, %v", text, err)
			}
		})
	}
}

// A clean worktree leaves nothing, and ignored files are not kept.
func TestRemoveClean(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	w := p.create("t", 1)
	p.writeIn(w.Path, "ignored/x", "x")
	p.writeIn(w.Path, ".env", "x")
	if removed := p.remove(w); removed != (Removed{}) || len(p.parked()) != 0 {
		t.Errorf("%+v, parked %q", removed, p.parked())
	}
	if removed := p.remove(w); removed != (Removed{}) { // again
		t.Errorf("%+v", removed)
	}
	if out := p.at(p.dir, "status", "--porcelain"); out != "" {
		t.Errorf("the work tree of the user has changed: %s", out)
	}
}

// Commits that are nowhere else are parked, whichever name in the worktree they have. Those that a
// branch of the user or a tag has are not.
func TestRemoveCommits(t *testing.T) {
	t.Parallel()
	commit := func(p *place, dir, name string) string {
		p.writeIn(dir, name, name)
		p.at(dir, "add", "-A")
		p.at(dir, "commit", "-qm", name)
		return p.at(dir, "rev-parse", "HEAD")
	}
	for name, c := range map[string]struct {
		do   func(p *place, dir string) (want []string)
		tree map[string]string
	}{
		"on the branch": {func(p *place, dir string) []string { return []string{commit(p, dir, "x")} },
			map[string]string{"x": "x"}},
		"merged": {func(p *place, dir string) []string {
			commit(p, dir, "x")
			p.at(p.dir, "merge", "-q", "--ff-only", "coppice/t-1")
			return nil
		}, nil},
		"tagged": {func(p *place, dir string) []string {
			commit(p, dir, "x")
			p.at(dir, "tag", "kept")
			return nil
		}, nil},
		"in another attempt only": {func(p *place, dir string) []string {
			x := commit(p, dir, "x")
			p.at(dir, "branch", "coppice/other-1")
			return []string{x}
		}, nil},
		"detached and on the branch": {func(p *place, dir string) []string {
			x := commit(p, dir, "x")
			p.at(dir, "checkout", "-q", "--detach", "main")
			return []string{commit(p, dir, "y"), x}
		}, map[string]string{"y": "y", "x": "none"}},
		"on another branch": {func(p *place, dir string) []string {
			x := commit(p, dir, "x")
			p.at(dir, "checkout", "-q", "-b", "mine", "main")
			commit(p, dir, "y")
			return []string{x}
		}, nil},
		"merge in progress": {func(p *place, dir string) []string {
			p.writeIn(dir, "a", "ours")
			ours := commit(p, dir, "x")
			p.at(dir, "checkout", "-q", "--detach", "main")
			p.writeIn(dir, "a", "theirs")
			theirs := commit(p, dir, "y")
			p.at(dir, "checkout", "-q", "coppice/t-1")
			if _, err := gittest.Try(dir, "merge", theirs); err == nil {
				p.Fatal("the merge has no conflict")
			}
			return []string{ours, theirs}
		}, map[string]string{"x": "x", "y": "y"}},
		"bisect": {func(p *place, dir string) []string {
			x := commit(p, dir, "x")
			p.at(dir, "update-ref", "refs/worktree/mine", x)
			p.at(dir, "reset", "-q", "--hard", "main")
			return []string{x}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, Options{})
			w := p.create("t", 1)
			want := c.do(p, w.Path)
			removed := p.remove(w)
			if removed.Parked == "" {
				if want != nil {
					t.Fatal("nothing is parked")
				}
				return
			}
			got := strings.Fields(p.at(p.dir, "rev-parse", removed.Parked+"^@"))
			if !slices.Equal(got, want) {
				t.Errorf("the parked commit has the parents %q, expected %q", got, want)
			}
			for file, text := range c.tree {
				if got := p.show(removed.Parked, file); got != text {
					t.Errorf("%s is %q, expected %q", file, got, text)
				}
			}
		})
	}
}

// What is staged and differs from the file is kept, too.
func TestRemoveStaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	w := p.create("t", 1)
	p.writeIn(w.Path, "a", "staged")
	p.at(w.Path, "add", "a")
	p.writeIn(w.Path, "a", "later")
	removed := p.remove(w)
	if got := p.show(removed.Parked, "a"); got != "later" {
		t.Errorf("the file is %q", got)
	}
	if got := p.show(removed.Parked+"^2", "a"); got != "staged" {
		t.Errorf("the staged file is %q", got)
	}
}

// A second attempt of the same name does not replace what the first has parked.
func TestRemoveTwice(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	for _, text := range []string{"one", "two", "three"} {
		w := p.create("t", 1)
		p.writeIn(w.Path, "new", text)
		p.remove(w)
	}
	refs := p.parked()
	if len(refs) != 3 {
		t.Fatalf("parked %q", refs)
	}
	for i, text := range []string{"one", "two", "three"} {
		if got := p.show(refs[i], "new"); got != text {
			t.Errorf("%s has %q, expected %q", refs[i], got, text)
		}
	}
}

// A branch that another worktree has checked out stays.
func TestRemoveBranchElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	w := p.create("t", 1)
	p.at(w.Path, "checkout", "-q", "--detach")
	p.at(p.dir, "checkout", "-q", "coppice/t-1")
	removed, err := p.repo.Remove(t.Context(), w.Attempt)
	if err != nil || removed.Kept != "coppice/t-1" {
		t.Errorf("%+v, %v", removed, err)
	}
	if _, err := os.Lstat(w.Path); err == nil {
		t.Error("the worktree is left")
	}
	if got := p.at(p.dir, "symbolic-ref", "HEAD"); got != "refs/heads/coppice/t-1" {
		t.Errorf("the user has %s", got)
	}
}
