package session

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// age gives each directory that has changed of late a time of its own, long ago: it is not read again for its age.
func (h *house) age() {
	h.t.Helper()
	err := filepath.WalkDir(h.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.ModTime().Before(began.Add(30*time.Minute)) {
			return err
		}
		h.aged++
		at := began.Add(time.Duration(h.aged) * time.Millisecond)
		return os.Chtimes(path, at, at)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) tree(v vendor) *tree { return newTree(v.cli, home(v.cli, []string{"HOME=" + h.home})) }

func TestMatches(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{
		"a/x1.jsonl", "a/x2.jsonl", "a/y.jsonl", "b/x1.jsonl", "b/x/z.jsonl", "x1.jsonl", "a/x3.txt",
	} {
		h.write(name, "")
	}
	if err := os.Symlink("b", filepath.Join(h.home, "c")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("y.jsonl", filepath.Join(h.home, "a", "x4.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(h.home, "out")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"*.jsonl":        "x1.jsonl",
		"*/x*.jsonl":     "c/x1.jsonl b/x1.jsonl a/x2.jsonl a/x1.jsonl",
		"*/x1.jsonl":     "c/x1.jsonl b/x1.jsonl a/x1.jsonl",
		"a/*":            "a/y.jsonl a/x3.txt a/x2.jsonl a/x1.jsonl",
		"a/*1.jsonl":     "a/x1.jsonl",
		"*/*/*":          "c/x/z.jsonl b/x/z.jsonl",
		"b/x/z.jsonl":    "b/x/z.jsonl",
		"b/*/z.jsonl":    "b/x/z.jsonl",
		"a/x1.jsonl/*":   "",
		"a/x1*1.jsonl":   "", // start and end overlap
		"out/*":          "",
		"nothing/*":      "",
		"*/nothing.json": "",
	} {
		tree := newTree(agentcli.Claude, h.home)
		tree.look(false, func(w *walk) {
			if got := strings.Join(w.glob(strings.Split(pattern, "/")...), " "); got != want {
				t.Errorf("%s: %q, expected %q", pattern, got, want)
			}
		})
	}
	tree := newTree(agentcli.Claude, filepath.Join(h.home, "nothing"))
	tree.look(false, func(w *walk) {
		if got := w.glob("*"); got != nil || w.header(match{&directory{}, &entry{}}) != (header{}) {
			t.Errorf("in no directory: %q", got)
		}
	})
}

// A directory is read again if it has changed, may have changed since it was read, or was not read for a minute. What
// is known of names that it has had before is kept, and after a minute if the files have not changed.
func TestReadAgain(t *testing.T) {
	v, h := vendors()[0], newHouse(t)
	h.begin(v, one, one, h.dir, began.Add(time.Second))
	h.write(".claude/projects/-other/"+two+".jsonl", v.head(h, two, two, h.dir, began.Add(time.Second)))
	tree := h.tree(v)
	// look returns where the entries of two directories are, which changes when they are read.
	look := func() (work, other **entry) {
		t.Helper()
		tree.look(true, func(w *walk) { w.recentSince(began.Add(-time.Minute)) })
		return &tree.dirs["projects/-work"].entries[0], &tree.dirs["projects/-other"].entries[0]
	}
	work, other := look()
	if w, o := look(); w == work || o == other {
		t.Error("a directory was not read again right after it has changed")
	}
	h.age()
	work, other = look()
	version := tree.version
	if w, o := look(); w != work || o != other || tree.version != version {
		t.Error("a directory was read again that has not changed")
	}
	h.write(".claude/projects/-work/"+three+".jsonl", "")
	h.write(".claude/projects/-work/"+one+".jsonl", v.used("a", 1, began))
	h.age()
	w, o := look()
	if w == work || o != other || tree.version == version {
		t.Error("not the directory that has changed was read again")
	}
	workFile := func() *entry { return tree.dirs["projects/-work"].find(one + ".jsonl") }
	otherFile := func() *entry { return tree.dirs["projects/-other"].find(two + ".jsonl") }
	before, unchanged := *workFile(), *otherFile()
	if before.header == nil || unchanged.header == nil || before.header != (*work).header {
		t.Error("a header was read again, or is not known")
	}
	tree.swept = time.Now().Add(-trust)
	if w2, o2 := look(); w2 == w || o2 == o {
		t.Error("it is not read again after a minute")
	}
	if now := workFile(); now.same(&before) || now.header == before.header {
		t.Error("a file that has changed was not read again after a minute")
	}
	if now := otherFile(); now.header != unchanged.header {
		t.Error("a file that has not changed was read again after a minute")
	}
}

// Directories that nobody looks at any longer are forgotten.
func TestSweep(t *testing.T) {
	h := newHouse(t)
	h.write("a/x", "")
	h.write("b/x", "")
	tree := newTree(agentcli.Claude, h.home)
	sweep := func(dir string) {
		tree.swept = time.Now().Add(-trust)
		tree.look(true, func(w *walk) { w.glob(dir, "*") })
	}
	sweep("a")
	sweep("b")
	if sweep("b"); len(tree.dirs) != 1 || tree.entries != 1 {
		t.Errorf("%d directories with %d entries", len(tree.dirs), tree.entries)
	}
	if err := os.RemoveAll(filepath.Join(h.home, "b")); err != nil {
		t.Fatal(err)
	}
	if tree.look(true, func(w *walk) { w.glob("b", "*") }); tree.entries != 0 {
		t.Errorf("%d entries", tree.entries)
	}
}

// A directory with very many entries leaves room for others, and a name is found there that was not read.
func TestManyEntries(t *testing.T) {
	h := newHouse(t)
	for _, dir := range []string{"a", "b", "c"} {
		for i := range 20 {
			h.write(fmt.Sprint(dir, "/", i), "")
		}
	}
	tree := newTree(agentcli.Claude, h.home)
	tree.entries = maxEntries - 40
	tree.look(true, func(w *walk) {
		if got := len(w.glob("*", "*")); got != 18+9+5 { // half of 37, 19 and 10
			t.Errorf("%d files", got)
		}
		for i := range 20 {
			if got := w.glob("*", fmt.Sprint(i)); len(got) != 3 {
				t.Errorf("%d: %q", i, got)
			}
		}
	})
	for range 3 {
		h.write("a/more", "")
		tree.look(true, func(w *walk) {
			if w.glob("*", "*"); tree.entries >= maxEntries {
				t.Errorf("%d entries", tree.entries)
			}
		})
	}
}

// A directory that takes the place of another one is read, also if it has its time.
func TestReplacedDirectory(t *testing.T) {
	h := newHouse(t)
	h.write("a/x", "")
	h.write("b/y", "")
	h.write("b/x/z", "")
	h.age()
	for _, dir := range []string{"a", "b"} {
		if err := os.Chtimes(filepath.Join(h.home, dir), began, began); err != nil {
			t.Fatal(err)
		}
	}
	tree := newTree(agentcli.Claude, h.home)
	look := func(want string) {
		t.Helper()
		tree.look(true, func(w *walk) {
			if got := strings.Join(w.glob("a", "*"), " "); got != want {
				t.Errorf("%q, expected %q", got, want)
			}
		})
	}
	look("a/x")
	if err := os.RemoveAll(filepath.Join(h.home, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(h.home, "b"), filepath.Join(h.home, "a")); err != nil {
		t.Fatal(err)
	}
	look("a/y")
}

// Directories in which nothing was made since the start of a call are not read for its session, however many files they
// have.
func TestMade(t *testing.T) {
	v, h := vendors()[0], newHouse(t)
	h.begin(v, one, one, h.dir, began.Add(time.Second))
	h.age()
	for since, listed := range map[time.Time]bool{began.Add(40 * time.Minute): false, began: true} {
		tree := h.tree(v)
		tree.look(true, func(w *walk) { w.recentSince(since) })
		if d := tree.dirs["projects/-work"]; d.listed != listed {
			t.Errorf("since %v: %v", since, d.listed)
		}
	}
}
