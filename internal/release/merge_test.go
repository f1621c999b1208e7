package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/exectest"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// A commit on the branch is fast-forwarded, in a bare repository and in a worktree. Again, nothing happens.
func TestFastForward(t *testing.T) {
	t.Parallel()
	for _, p := range []*repository{newRepository(t), newBare(t)} {
		commit := p.attempt("t", p.first, "new=1", "-gone", "-d/1", "-d/2", "d=file", "dir/b/c=1", "-dir/b")
		if m := p.merge(commit); m != (Merged{commit, p.first}) {
			t.Errorf("%+v", m)
		}
		if m := p.merge(commit); m != (Merged{commit, commit}) {
			t.Errorf("again: %+v", m)
		}
		p.same("main", p.git("rev-parse", "main"), commit)
		p.noLocks()
		if p.git("rev-parse", "--is-bare-repository") == "false" {
			p.same("the status", p.status(), "")
			p.same("a file", p.read("dir/b/c")+p.read("gone")+p.read("d"), "1nonefile")
			p.same("the reflog", p.git("log", "-g", "-1", "--format=%gs"), reason)
		}
	}
}

// The result for a branch that was moved is another tree, which is checked.
func TestMergeCommit(t *testing.T) {
	t.Parallel()
	for _, p := range []*repository{newRepository(t), newBare(t)} {
		commit := p.attempt("t", p.first, "a=one\n1\n2\n3\n4\n5\n6\n7\n8\n9\n")
		other := p.attempt("u", p.first, "a=1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n")
		p.merge(other)
		bad := errors.New("tests fail")
		var checked []string
		check := func(err error) func(context.Context, string) error {
			return func(_ context.Context, c string) error {
				checked = append(checked, c)
				return err
			}
		}
		_, err := p.repo.Merge(t.Context(), Merge{"main", commit, check(bad)})
		if err != bad || p.git("rev-parse", "main") != other { // as it is
			t.Errorf("%v", err)
		}
		m, err := p.repo.Merge(t.Context(), Merge{"main", commit, check(nil)})
		if err != nil || m.Before != other || len(checked) != 2 || m.Commit != checked[1] {
			t.Errorf("%+v, %v, checked %q", m, err, checked)
		}
		p.same("the parents", p.git("log", "-1", "--format=%P %s", "main"),
			other+" "+commit+" Merge "+commit[:12]+": Change t")
		p.same("a", p.git("show", "main:a"), "one\n1\n2\n3\n4\n5\n6\n7\n8\n9\nten")
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	commit := p.attempt("t", p.first, "a=x\n", "odd\n\xffname=1", "gone=changed\n")
	p.git("rm", "-q", "gone")
	p.write("a", "y\n")
	p.write("odd\n\xffname", "2")
	p.commitAll("theirs")
	var conflict *ConflictError
	err := p.refuse(commit)
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Files, []string{"a", "gone", "odd\n\xffname"}) ||
		strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error()) {
		t.Errorf("%q", err)
	}
	var many []string
	for i := range 30 {
		many = append(many, "many"+strconv.Itoa(i)+"=y")
	}
	p.merge(p.attempt("u", p.git("rev-parse", "main"), many...))
	for i := range many {
		many[i] += "x"
	}
	err = p.refuse(p.attempt("v", p.first, many...))
	if !errors.As(err, &conflict) || len(conflict.Files) != maxFiles || conflict.More != 10 {
		t.Errorf("%v", err)
	}
	unrelated := p.git("commit-tree", "-m", "x", p.tree(p.first))
	if err := p.refuse(unrelated); err == nil {
		t.Error("unrelated histories")
	}
}

// What the merge would overwrite in the worktree is refused, and stays.
func TestDirty(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(p *repository)
		want string
	}{
		"modified":  {func(p *repository) { p.write("a", "mine\n") }, "a"},
		"staged":    {func(p *repository) { p.write("a", "mine\n"); p.git("add", "a") }, "a"},
		"same":      {func(p *repository) { p.write("a", "theirs\n"); p.git("add", "a") }, "a"},
		"removed":   {func(p *repository) { os.Remove(p.dir + "/a") }, "a"},
		"unstaged":  {func(p *repository) { p.git("rm", "-q", "--cached", "a") }, "a"},
		"deleted":   {func(p *repository) { p.write("gone", "mine") }, "gone"},
		"untracked": {func(p *repository) { p.write("new", "mine") }, "new"},
		"ignored":   {func(p *repository) { p.write("ignored", "mine") }, "ignored"},
		"above":     {func(p *repository) { p.write("deep", "mine") }, "deep"},
		"above, ignored": {func(p *repository) {
			p.write(".git/info/exclude", "deep\n")
			p.write("deep", "mine")
		}, "deep"},
		"below":          {func(p *repository) { p.write("new/\xff/mine", "mine") }, "new/\xff/mine"},
		"in a directory": {func(p *repository) { p.write("d/ignored", "mine") }, "d/ignored"},
		"link":           {func(p *repository) { os.Symlink("/nowhere", p.dir+"/deep") }, "deep"},
		"assumed": {func(p *repository) {
			p.git("update-index", "--assume-unchanged", "a")
			p.write("a", "mine")
		}, ""},
		"skipped": {func(p *repository) {
			p.git("update-index", "--skip-worktree", "a")
			p.write("a", "mine")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRepository(t)
			commit := p.attempt("t", p.first, "a=theirs\n", "new=1", "ignored=1", "deep/x/y=1", "-gone", "-d/1", "-d/2",
				"d=1")
			test.do(p)
			var dirty *DirtyError
			err := p.refuse(commit)
			if !errors.As(err, &dirty) || dirty.Worktree != p.dir || strings.Join(dirty.Files, " ") != test.want {
				t.Errorf("%v", err)
			}
		})
	}
}

// Local changes that the merge does not touch stay as they are: staged, not staged, both, untracked, ignored, stashed.
func TestLocalChangesStay(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	p.write("a", "stashed\n")
	p.git("stash")
	commit := p.attempt("t", p.first, "new/x=1", "dir/b=theirs\n", "-gone")
	p.write("d/1", "staged\n")
	p.write("d/3", "staged\n")
	p.git("add", "d")
	p.write("d/1", "later\n")
	p.write("a", "mine\n")
	p.write("new/y", "untracked")
	p.write("ignored", "ignored")
	os.Remove(p.dir + "/d/2")
	before, content := p.status(), p.git("stash", "list")+p.git("show", "stash@{0}:a")
	p.git("config", "merge.autoStash", "true")
	p.merge(commit)
	p.same("the status", p.status(), before)
	p.same("the stash", p.git("stash", "list")+p.git("show", "stash@{0}:a"), content)
	p.same("staged", p.git("show", ":d/1"), "staged")
	p.same("files", p.read("d/1")+p.read("a")+p.read("new/y")+p.read("ignored")+p.read("d/2"),
		"later\nmine\nuntrackedignorednone")
	p.same("merged files", p.read("new/x")+p.read("dir/b")+p.read("gone"), "1theirs\nnone")
	p.git("commit", "-qam", "mine")
	p.same("main", p.git("show", "main:dir/b"), "theirs")
	p.noLocks()
}

// During an operation the branch stays where it is, also if HEAD does not name it then.
func TestBusy(t *testing.T) {
	t.Parallel()
	for operation, do := range map[string]string{
		"merge":                "git merge --no-commit --no-ff side",
		"rebase":               "git rebase conflict",
		"cherry-pick":          "git cherry-pick conflict",
		"revert":               "git revert --no-edit HEAD~1",
		"bisect":               "git bisect start; git bisect bad; git bisect good HEAD~1",
		"merge with conflicts": "git stash apply; git reset -q --soft HEAD",
	} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			p := newRepository(t)
			script := `git checkout -qb conflict; echo conflict >a; git commit -qam conflict
				git checkout -qb side main; echo side >side; git add side; git commit -qam side
				git checkout -q main; echo x >a; git commit -qam x; echo stash >a; git stash -q; echo y >a; git commit -qam y
				` + do
			cmd := command(p.dir, "sh", "-c", script)
			out, _ := cmd.CombinedOutput() // conflicts
			commit := p.attempt("t", p.git("rev-parse", "main"), "new=1")
			var busy *BusyError
			err := p.refuse(commit)
			if !errors.As(err, &busy) || busy.Operation != operation || busy.Worktree != p.dir {
				t.Errorf("%v; %s", err, out)
			}
		})
	}
}

// No program that the repository names runs, and no setting changes what a merge does.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	ran := filepath.Join(t.TempDir(), "ran")
	p.write(".gitattributes", "* merge=evil diff=evil\nlocked merge=evil\nlocked -merge\n")
	p.write("locked", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	base := p.commitAll("attributes")
	trees := map[string]string{
		"t": p.tree(base, "a=one\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
		"u": p.tree(base, "a=1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n", "locked=one\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
		"v": p.tree(base, "locked=1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n"),
	}
	for _, hook := range []string{"post-index-change", "reference-transaction", "post-merge", "pre-commit",
		"commit-msg", "post-checkout", "pre-merge-commit", "prepare-commit-msg", "post-commit"} {
		exectest.Write(t, p.dir+"/.git/"+hook, "#!/bin/sh\necho "+hook+" >>"+ran+"\n")
	}
	for name, value := range map[string]string{
		"core.hooksPath": p.dir + "/.git", "merge.evil.driver": "touch " + ran, "diff.evil.command": "touch " + ran,
		"diff.evil.textconv": "touch " + ran, "diff.external": "touch " + ran, "core.fsmonitor": "touch " + ran,
		"commit.gpgsign": "true", "gpg.program": "touch " + ran, "merge.ff": "false", "merge.renames": "false",
		"user.useConfigOnly": "true", "merge.verifySignatures": "true", "core.alternateRefsCommand": "touch " + ran,
		"merge.evil.recursive": "binary", "trailer.separators": "=", "diff.ignoreSubmodules": "all",
	} {
		p.git("config", name, value)
	}
	p.git("status")
	if err := os.Remove(ran); err != nil {
		t.Error("git runs nothing of this")
	}
	for task, tree := range trees {
		id, err := p.repo.Commit(t.Context(), Commit{Base: base, Tree: tree, Task: task, Attempt: 1, At: noon})
		if err != nil {
			t.Fatal(err)
		}
		trees[task] = id
	}
	p.merge(trees["u"])
	p.merge(trees["t"])
	p.same("a", p.read("a"), "one\n1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n")
	if found, err := p.repo.Merged(t.Context(), "main", "t", noon); len(found) != 1 || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	// What the attributes say of a file is respected, though.
	var conflict *ConflictError
	_, err := p.repo.Merge(t.Context(), Merge{Into: "main", Commit: trees["v"]})
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Files, []string{"locked"}) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("it ran: %s", text)
	}
}

// The branch may be checked out in a linked worktree, and the repository opened elsewhere.
func TestLinkedWorktree(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	top := p.dir
	linked := filepath.Join(t.TempDir(), "linked")
	p.git("checkout", "-q", "-b", "own")
	p.git("worktree", "add", "-q", linked, "main")
	p.write("a", "mine\n")
	p.merge(p.attempt("t", p.first, "a=theirs\n"))
	p.same("own", p.read("a"), "mine\n")
	p.dir = linked
	p.same("linked", p.read("a")+p.status(), "theirs\n")
	p.same("the reflog", p.git("log", "-g", "-1", "--format=%gs"), reason)
	p.open(linked)
	if _, err := p.repo.Merge(t.Context(), Merge{Into: "own", Commit: p.attempt("u", "main", "a=x\n")}); err == nil {
		t.Error("the changes of the main worktree would be overwritten")
	}
	commit := p.attempt("v", "main", "a=x\n")
	p.at(top, "stash")
	p.at(top, "checkout", "-q", "--ignore-other-worktrees", "main")
	if err := p.refuse(commit); !errors.Is(err, ErrCheckedOut) {
		t.Errorf("%v", err)
	}
	p.at(top, "checkout", "-q", "own")
	p.dir = top
	if err := os.Rename(linked, linked+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := p.refuse(commit); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// The commit of a submodule that is checked out is not merged, as the next commit -a would undo it.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	p.git("clone", "-q", ".", "sub")
	p.git("add", "sub")
	base := p.commitAll("sub")
	p.write("sub/a", "dirty\n")
	p.merge(p.attempt("t", base, "new=1"))
	p.git("update-index", "--cacheinfo", "160000,"+base+",sub")
	tree := p.git("write-tree")
	p.git("reset", "-q")
	commit, err := p.repo.Commit(t.Context(), Commit{Base: "main", Tree: tree, Task: "u", Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	var dirty *DirtyError
	if err := p.refuse(commit); !errors.As(err, &dirty) || !slices.Equal(dirty.Files, []string{"sub"}) {
		t.Errorf("%v", err)
	}
	if err := os.RemoveAll(p.dir + "/sub"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	p.merge(commit)
	p.same("the status", p.status(), "")
}

// Names of branches are checked, and a commit must be one.
func TestMergeRefused(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	commit := p.attempt("t", p.first, "new=1")
	p.git("symbolic-ref", "refs/heads/link", "refs/heads/main")
	for _, m := range []Merge{
		{Into: "none", Commit: commit}, {Into: "", Commit: commit}, {Into: "--all", Commit: commit},
		{Into: "link", Commit: commit}, {Into: "main", Commit: "none"}, {Into: "main", Commit: "--all"},
		{Into: "main", Commit: p.git("rev-parse", "main^{tree}")},
	} {
		if done, err := p.repo.Merge(t.Context(), m); err == nil {
			t.Errorf("%+v: %+v", m, done)
		}
	}
	if _, err := Open(t.Context(), t.TempDir()); err == nil {
		t.Error("an empty directory is opened")
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	lock, err := p.repo.lockBranch(ctx, "refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	cancel(enough)
	if _, err := p.repo.Merge(ctx, Merge{Into: "main", Commit: commit}); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}
