package worktree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// garbage returns what Garbage finds, as kinds and last parts of names.
func (p *place) garbage(o GarbageOptions) (all []string, items []Item) {
	p.Helper()
	items, err := p.repo.Garbage(p.Context(), o)
	if err != nil {
		p.Fatal(err)
	}
	for _, i := range items {
		all = append(all, string(i.Kind)+" "+filepath.Base(i.Name))
	}
	slices.Sort(all)
	return all, items
}

func (p *place) commit(dir, name, text string) string {
	p.Helper()
	p.writeIn(dir, name, text)
	p.at(dir, "add", "-A")
	p.at(dir, "commit", "-qm", "change "+name)
	return p.at(dir, "rev-parse", "HEAD")
}

// Garbage lists what is no longer needed and nothing else. Collect deletes that and loses nothing.
func TestGarbage(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	used, err := p.repo.Create(t.Context(), Attempt{"used", 1, "main"})
	if err != nil {
		t.Fatal(err)
	}
	p.create("live", 1)
	ended := p.create("ended", 1)
	p.writeIn(ended.Path, "new", "work")
	p.writeIn(ended.Path, "ignored/large", strings.Repeat("x", 1<<20))
	missing := p.create("missing", 1)
	if err := os.RemoveAll(missing.Path); err != nil {
		t.Fatal(err)
	}
	p.at(p.dir, "branch", "coppice/merged-1")
	p.at(p.dir, "branch", "coppice/Mine")
	p.at(p.dir, "branch", "mine")
	p.at(p.dir, "branch", "coppice/work-1", p.at(p.dir, "commit-tree", "main^{tree}", "-p", "main", "-m", "work"))
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	p.at(p.dir, "worktree", "add", "-q", "-b", "coppice/elsewhere-1", elsewhere)
	p.writeIn(p.repo.Dir(), "unknown-1/file", "work")
	p.writeIn(p.repo.Dir(), "half-1.removing/file", "x")
	p.writeIn(p.repo.Dir(), "other/file", "x")
	p.writeIn(p.repo.Dir(), "gone-1.use", "")
	p.at(p.dir, "worktree", "add", "-q", "--detach", filepath.Join(p.repo.Dir(), "users-1"))
	o := GarbageOptions{Live: func(a Attempt) bool { return a.Task == "live" }}
	want := []string{
		"branch merged-1", "directory half-1.removing", "directory unknown-1", "lease gone-1", "worktree ended-1",
		"worktree missing-1",
	}
	before := p.at(p.repo.Dir(), "ls-files", "--others") + fmt.Sprint(os.ReadDir(p.repo.Dir()))
	all, items := p.garbage(o)
	if after := p.at(p.repo.Dir(), "ls-files", "--others") + fmt.Sprint(os.ReadDir(p.repo.Dir())); after != before {
		t.Errorf("looking for garbage has changed files:\n%s\n%s", before, after)
	}
	if !slices.Equal(all, want) {
		t.Fatalf("garbage:\n%s", strings.Join(all, "\n"))
	}
	for _, i := range items {
		if i.Name == ended.Path {
			out, err := exec.Command("du", "-s", "--block-size=1", ended.Path).Output()
			du, _ := strconv.ParseInt(strings.Fields(string(out))[0], 10, 64)
			if err != nil || i.Bytes != du || du < 1<<20 {
				t.Errorf("%d bytes, du says %s %v", i.Bytes, out, err)
			}
		}
	}
	deleted, err := p.repo.Collect(t.Context(), items, o)
	if err != nil || len(deleted) != len(want) {
		t.Errorf("deleted %d: %+v, %v", len(deleted), deleted, err)
	}
	if all, _ := p.garbage(o); len(all) != 0 {
		t.Errorf("left: %q", all)
	}
	if refs := p.parked(); !slices.Equal(refs, []string{parkedRefs + "ended-1", parkedRefs + "unknown-1"}) ||
		p.show(parkedRefs+"ended-1", "new") != "work" || p.show(parkedRefs+"unknown-1", "file") != "work" {
		t.Errorf("parked %q", refs)
	}
	branches := strings.Fields(p.at(p.dir, "for-each-ref", "--format=%(refname:short)", "refs/heads"))
	if want := []string{
		"coppice/Mine", "coppice/elsewhere-1", "coppice/live-1", "coppice/used-1", "coppice/work-1", "main", "mine",
	}; !slices.Equal(branches, want) {
		t.Errorf("branches %q, expected %q", branches, want)
	}
	for _, name := range []string{"used-1/a", "live-1/a", "other/file", "users-1/a"} {
		if _, err := os.Stat(filepath.Join(p.repo.Dir(), name)); err != nil {
			t.Error(err)
		}
	}
	if err := used.Release(); err != nil {
		t.Fatal(err)
	}
}

// Collect does not delete what is no longer garbage.
func TestCollectChecksAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	p.create("t", 1)
	p.at(p.dir, "branch", "coppice/b-1")
	tagged := p.at(p.dir, "commit-tree", "main^{tree}", "-p", "main", "-m", "tagged")
	p.at(p.dir, "tag", "kept", tagged)
	p.at(p.dir, "branch", "coppice/c-1", tagged)
	w := p.create("kept", 1)
	p.commit(w.Path, "x", "x")
	p.at(p.dir, "branch", "mine", w.Branch())
	ref := parkedRefs + "kept-1"
	p.at(p.dir, "update-ref", ref, w.Branch())
	p.remove(w)
	p.writeIn(p.repo.Dir(), "dir-1/file", "x")
	all, items := p.garbage(GarbageOptions{})
	want := []string{"branch b-1", "branch c-1", "directory dir-1", "parked kept-1", "worktree t-1"}
	if !slices.Equal(all, want) {
		t.Fatalf("garbage %q", all)
	}
	used, err := p.repo.Create(t.Context(), Attempt{"t", 1, "main"})
	if err != nil {
		t.Fatal(err)
	}
	defer used.Release()
	work := p.at(p.dir, "commit-tree", "main^{tree}", "-p", "main", "-m", "x")
	p.at(p.dir, "update-ref", "refs/heads/coppice/b-1", work)
	p.at(p.dir, "branch", "-D", "mine")
	p.at(p.dir, "tag", "-d", "kept")
	if err := os.Rename(filepath.Join(p.repo.Dir(), "dir-1"), filepath.Join(p.repo.Dir(), "away")); err != nil {
		t.Fatal(err)
	}
	p.at(p.dir, "worktree", "add", "-q", "--detach", filepath.Join(p.repo.Dir(), "dir-1"))
	deleted, err := p.repo.Collect(t.Context(), items, GarbageOptions{})
	if len(deleted) != 0 {
		t.Errorf("deleted %+v, %v", deleted, err)
	}
	for _, name := range []string{"t-1/a", "dir-1/a"} {
		if _, err := os.Stat(filepath.Join(p.repo.Dir(), name)); err != nil {
			t.Error(err)
		}
	}
	p.at(p.dir, "rev-parse", "--verify", ref)
	p.at(p.dir, "rev-parse", "--verify", "refs/heads/coppice/b-1")
	p.at(p.dir, "rev-parse", "--verify", "refs/heads/coppice/c-1")
}

// Parked work is garbage when it is merged in one way or another, and only then; or when it is old and
// --parked asks for that.
func TestGarbageParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work   func(p *place, dir string)
		merge  func(p *place, parked string)
		reason string
	}{
		"nothing": {func(p *place, dir string) { p.commit(dir, "x", "1") }, func(*place, string) {}, ""},
		"merged": {func(p *place, dir string) { p.commit(dir, "x", "1") }, func(p *place, parked string) {
			p.at(p.dir, "merge", "-q", "--no-edit", parked+"^")
		}, "all its commits"},
		"branch": {func(p *place, dir string) { p.writeIn(dir, "x", "1") }, func(p *place, parked string) {
			p.at(p.dir, "branch", "mine", parked)
		}, "a branch has it"},
		"rebased": {func(p *place, dir string) {
			p.commit(dir, "x", "1")
			p.commit(dir, "y", "2")
		}, func(p *place, parked string) {
			p.commit(p.dir, "a", "other\n")
			p.at(p.dir, "cherry-pick", parked+"^^", parked+"^")
		}, "same changes"},
		"rebased in part": {func(p *place, dir string) {
			p.commit(dir, "x", "1")
			p.commit(dir, "y", "2")
		}, func(p *place, parked string) {
			p.commit(p.dir, "a", "other\n")
			p.at(p.dir, "cherry-pick", parked+"^^")
		}, ""},
		"squashed": {func(p *place, dir string) {
			p.commit(dir, "x", "1")
			p.commit(dir, "y", "2")
			p.writeIn(dir, "z", "3")
		}, func(p *place, parked string) {
			p.commit(p.dir, "a", "other\n")
			p.at(p.dir, "merge", "-q", "--squash", parked)
			p.at(p.dir, "commit", "-qm", "squashed")
		}, "all its changes"},
		"other lines": {func(p *place, dir string) {
			p.commit(dir, "x", strings.Repeat("line\n", 30))
			p.commit(dir, "x", strings.Repeat("line\n", 29)+"changed\n")
		}, func(p *place, parked string) {
			p.at(p.dir, "cherry-pick", parked+"^^")
			p.commit(p.dir, "x", "first\n"+strings.Repeat("line\n", 30))
			p.at(p.dir, "cherry-pick", parked+"^")
		}, "same changes"},
		"merge with changes": {func(p *place, dir string) {
			p.commit(dir, "x", "1")
			p.at(dir, "checkout", "-q", "--detach", "main")
			p.commit(dir, "y", "2")
			p.at(dir, "checkout", "-q", "coppice/t-1")
			p.at(dir, "merge", "-q", "--no-commit", "@{-1}")
			p.commit(dir, "z", "3")
		}, func(p *place, parked string) {
			p.commit(p.dir, "a", "other\n")
			p.at(p.dir, "cherry-pick", parked+"^^1", parked+"^^2")
		}, ""},
		"uncommitted": {func(p *place, dir string) { p.writeIn(dir, "x", "1") }, func(p *place, _ string) {
			p.commit(p.dir, "x", "1")
		}, "same changes"},
		"other blanks": {func(p *place, dir string) { p.writeIn(dir, "x", "if a:\n  b\n") }, func(p *place, _ string) {
			p.commit(p.dir, "x", "if a:\nb\n")
		}, ""},
		"other binary": {func(p *place, dir string) { p.writeIn(dir, "x", "\x00\x01\n") }, func(p *place, _ string) {
			p.commit(p.dir, "x", "\x00\x02\n")
		}, ""},
		"same binary": {func(p *place, dir string) { p.writeIn(dir, "x", "\x00\x01\n") }, func(p *place, _ string) {
			p.commit(p.dir, "x", "\x00\x01\n")
		}, "same changes"},
		"staged is lost": {func(p *place, dir string) {
			p.writeIn(dir, "x", "staged")
			p.at(dir, "add", "x")
			p.writeIn(dir, "x", "1")
		}, func(p *place, _ string) { p.commit(p.dir, "x", "1") }, ""},
		"forged": {func(p *place, dir string) {
			p.writeIn(dir, "x", "1\n"+strings.Repeat("a", 40)+"\nindex 1\n@@ -1 +1 @@\n")
		}, func(p *place, _ string) {
			p.commit(p.dir, "x", "1\n"+strings.Repeat("a", 40)+"\nindex 2\n@@ -2 +1 @@\n")
		}, ""},
		"mode": {func(p *place, dir string) {
			if err := os.Chmod(filepath.Join(dir, "a"), 0o755); err != nil {
				p.Fatal(err)
			}
		}, func(p *place, _ string) { p.commit(p.dir, "x", "1") }, ""},
		"deleted": {func(p *place, dir string) {
			if err := os.Remove(filepath.Join(dir, "a")); err != nil {
				p.Fatal(err)
			}
		}, func(p *place, _ string) { p.commit(p.dir, "x", "1") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, Options{})
			w := p.create("t", 1)
			c.work(p, w.Path)
			parked := p.remove(w).Parked
			c.merge(p, parked)
			_, items := p.garbage(GarbageOptions{})
			if c.reason == "" {
				if len(items) != 0 {
					t.Fatalf("%+v", items)
				}
				old := GarbageOptions{Parked: true, Keep: time.Hour}
				if all, _ := p.garbage(old); len(all) != 0 {
					t.Errorf("%q is old", all)
				}
				r := GarbageOptions{Parked: true, Keep: time.Nanosecond}
				all, items := p.garbage(r)
				if len(all) != 1 || !strings.Contains(items[0].Reason, "0 days ago") {
					t.Errorf("%+v", items)
				}
				deleted, err := p.repo.Collect(t.Context(), items, GarbageOptions{})
				if len(deleted) != 0 || err != nil {
					t.Errorf("deleted without the option: %+v, %v", deleted, err)
				}
				if deleted, err := p.repo.Collect(t.Context(), items, r); len(deleted) != 1 || err != nil {
					t.Errorf("%+v, %v", deleted, err)
				}
				return
			}
			if len(items) != 1 || !strings.Contains(items[0].Reason, c.reason) || items[0].Name != parked {
				t.Fatalf("%+v, expected %q", items, c.reason)
			}
			if deleted, err := p.repo.Collect(t.Context(), items, GarbageOptions{}); err != nil || len(deleted) != 1 {
				t.Errorf("%+v, %v", deleted, err)
			}
			if refs := p.parked(); len(refs) != 0 {
				t.Errorf("left: %q", refs)
			}
		})
	}
}

// A repository that never had worktrees has no garbage, and gets no files.
func TestGarbageOfNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	if err := os.RemoveAll(filepath.Join(p.dir, ".coppice")); err != nil {
		t.Fatal(err)
	}
	r, err := OpenExisting(t.Context(), p.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if items, err := r.Garbage(t.Context(), GarbageOptions{}); len(items) != 0 || err != nil {
		t.Errorf("%+v, %v", items, err)
	}
	if _, err := os.Lstat(filepath.Join(p.dir, ".coppice")); err == nil {
		t.Error("a directory was made")
	}
}

// A damaged record is reported, and everything else is still found.
func TestGarbageDamaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	damaged := []string{"", "garbage", "{}", `{"task":"other","number":1}`, strings.Repeat("x", maxRecord+1)}
	for n, text := range damaged {
		p.writeIn(p.repo.Dir(), fmt.Sprintf("bad-%d.json", n+1), text)
	}
	p.create("t", 1)
	items, err := p.repo.Garbage(t.Context(), GarbageOptions{})
	if err == nil || len(items) != 1 || items[0].Kind != KindWorktree {
		t.Errorf("%+v, %v", items, err)
	}
	if strings.Count(err.Error(), "bad-") != 5 {
		t.Errorf("%v", err)
	}
	if _, err := p.repo.List(t.Context()); !errors.Is(err, errRecord) {
		t.Errorf("%v", err)
	}
}
