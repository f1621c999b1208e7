package release

import (
	"errors"
	"os"
	"path/filepath"
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
