package release

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// once does something at a step, the first time.
func (p *repository) once(step string, do func()) {
	done := false
	p.repo.step = func(name string) {
		if name == step && !done {
			done = true
			do()
		}
	}
}

// A person moves the branch during a merge. The merge begins again, on what the person did.
func TestBranchIsMoved(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"combined", "locked", "prepared", "ready"} {
		p := newRepository(t)
		check := p.local()
		commit := p.attempt("t", p.first, crashChange...)
		theirs := p.git("commit-tree", "-p", p.first, "-m", "theirs", p.first+"^{tree}") // without the index
		p.once(step, func() { p.git("update-ref", "refs/heads/main", theirs) })
		m := p.merge(commit)
		if m.Before != theirs {
			t.Errorf("at %q: %+v", step, m)
		}
		p.same("the parents", p.git("log", "-1", "--format=%P", "main"), theirs+" "+commit)
		check()
	}
	p := newBare(t)
	commit := p.attempt("t", p.first, "new=1")
	theirs := p.attempt("u", p.first, "other=1")
	p.once("combined", func() { p.git("update-ref", "refs/heads/main", theirs) })
	p.merge(commit)
	p.same("the parents", p.git("log", "-1", "--format=%P", "main"), theirs+" "+commit)
}

// A person switches to another branch during a merge, which git does without the index if no file differs.
// The worktree belongs to the commit that the other branch has, and the branch is merged.
func TestBranchIsLeft(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"combined", "locked", "written", "ready", "moved"} {
		p := newRepository(t)
		check := p.local()
		commit := p.attempt("t", p.first, crashChange...)
		p.once(step, func() { p.git("switch", "-q", "-c", "other") })
		p.merge(commit)
		p.same("main", p.git("rev-parse", "main"), commit)
		want := p.first
		if step == "moved" { // it begins there
			want = commit
		}
		p.same("other", p.git("rev-parse", "HEAD"), want)
		check()
	}
}

// When the branch moves, the index is that of the merge already. A git commit of a person that has read the moved HEAD and
// the index from before, and gets the lock only then, would drop what was merged.
func TestIndexBeforeBranch(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	commit := p.attempt("t", p.first, crashChange...)
	seen := 0
	p.repo.step = func(name string) {
		if name != "ready" && name != "moved" {
			return
		}
		seen++
		text, err := os.ReadFile(p.dir + "/.git/index")
		if err == nil {
			err = os.WriteFile(p.dir+"/.git/copy", text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
		cmd := exec.Command("git", "-C", p.dir, "write-tree")
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+p.dir+"/.git/copy")
		tree, err := cmd.Output()
		p.same("the index at "+name, strings.TrimSpace(string(tree)), p.git("rev-parse", commit+"^{tree}"))
		if err != nil {
			t.Error(err)
		}
	}
	p.merge(commit)
	if seen != 2 {
		t.Errorf("%d steps", seen)
	}
}

// A process is killed when it has written the new index, and a person removes the lock, as git says, and stages something.
// No later merge brings back the index from before.
func TestLockOfKilledIsRemoved(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	commit := p.attempt("t", p.first, "new=1")
	p.kill("ready", commit)
	if err := os.Remove(p.dir + "/.git/index.lock"); err != nil {
		t.Fatal(err)
	}
	p.git("reset", "-q", "--hard")
	p.write("staged", "mine")
	p.git("add", "staged")
	for _, step := range []string{"locked", "prepared"} {
		p.kill(step, commit)
		if err := p.repo.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.same("the status after "+step, p.status(), "A  staged")
	}
	p.merge(commit)
	p.same("the status", p.status(), "A  staged")
	p.noLocks()
}

// The person removes the lock of the index, although the merge is active, and stages something.
func TestLockIsRemovedAndIndexWritten(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	commit := p.attempt("t", p.first, "new=1")
	p.write("staged", "mine")
	p.once("ready", func() {
		os.Remove(p.dir + "/.git/index.lock")
		p.git("add", "staged")
	})
	if _, err := p.repo.Merge(t.Context(), Merge{Into: "main", Commit: commit}); err == nil {
		t.Error("it was merged")
	}
	p.same("what is staged", p.git("show", ":staged"), "mine")
}

// The person removes the lock of the index, although the merge is active. The branch is not moved then.
func TestLockIsRemoved(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	check := p.local()
	commit := p.attempt("t", p.first, crashChange...)
	p.once("ready", func() { os.Remove(p.dir + "/.git/index.lock") })
	if err := p.refuse(commit); err == nil {
		t.Error("it was merged")
	}
	check()
	p.merge(commit)
	check()
}

// A file was changed in the moment in which the index was written, so that its size and times are those of the
// index.
func TestRacyIndex(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	p.git("config", "core.trustctime", "false")
	p.git("config", "core.checkStat", "minimal")
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	touch := func(name string) {
		if err := os.Chtimes(filepath.Join(p.dir, name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	touch("a")
	p.git("update-index", "--refresh")
	p.write("a", "9\n8\n7\n6\n5\n4\n3\n2\n1\n")
	touch("a")
	touch(".git/index")
	_, err := p.repo.Merge(t.Context(), Merge{Into: "main", Commit: p.attempt("t", p.first, "a=theirs\n")})
	var dirty *DirtyError
	if !errors.As(err, &dirty) {
		t.Errorf("%v, a is %q", err, p.read("a"))
	}
}
