package patch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// directory writes files into a new directory.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// contents returns all files and links below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case entry.IsDir():
			if name != "." {
				all[name] = "directory"
			}
		case entry.Type()&fs.ModeSymlink != 0:
			all[name] = "link"
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[name] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func applyTo(t *testing.T, dir, patch string, dryRun bool) Report {
	t.Helper()
	p, err := Parse(patch)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Apply(dir, p, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const twoFiles = `--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 first line
-second line
+2nd line
diff --git a/new/dir/run.sh b/new/dir/run.sh
new file mode 100755
--- /dev/null
+++ b/new/dir/run.sh
@@ -0,0 +1 @@
+exit 0
diff --git a/old.txt b/old.txt
deleted file mode 100644
`

func TestApply(t *testing.T) {
	t.Parallel()
	before := map[string]string{"a.txt": "first line\nsecond line\n", "old.txt": "old\n"}
	dir := directory(t, before)
	if err := os.Chmod(filepath.Join(dir, "a.txt"), 0o777); err != nil {
		t.Fatal(err)
	}
	if r := applyTo(t, dir, twoFiles, true); r.Applied || r.Failed() {
		t.Errorf("%+v", r)
	}
	if d := cmp.Diff(before, contents(t, dir)); d != "" {
		t.Errorf("a dry run changes files:\n%s", d)
	}
	if r := applyTo(t, dir, twoFiles, false); !r.Applied || r.Failed() {
		t.Errorf("%+v", r)
	}
	want := map[string]string{
		"a.txt": "first line\n2nd line\n", "new": "directory", "new/dir": "directory", "new/dir/run.sh": "exit 0\n",
	}
	if d := cmp.Diff(want, contents(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for name, mode := range map[string]fs.FileMode{"a.txt": 0o777, "new/dir/run.sh": 0o755 &^ umask(t)} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, mode)
		}
	}
	if r := applyTo(t, dir, twoFiles, false); r.Applied || r.Failed() || !r.Files[0].Done || !r.Files[2].Done {
		t.Errorf("the second time: %+v", r)
	}
	mode := "diff --git a/a.txt b/a.txt\nold mode 100755\nnew mode 100644\n"
	if r := applyTo(t, dir, mode, false); !r.Applied || r.Lines()[0] != "a.txt: mode changed" {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(filepath.Join(dir, "a.txt")); err != nil || info.Mode() != 0o666 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// umask returns the umask, as new files show it.
func umask(t *testing.T) fs.FileMode {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.OpenFile(name, os.O_CREATE, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return 0o777 &^ info.Mode()
}

// Nothing is written unless everything is, and nothing outside of the directory.
func TestRefused(t *testing.T) {
	t.Parallel()
	outside := directory(t, map[string]string{"a.txt": "first line\nsecond line\n"})
	dir := directory(t, map[string]string{
		"a.txt": "first line\nsecond line\n", "old.txt": "old\n", ".git/config": "first line\nsecond line\n",
		"dir/x": "",
	})
	for link, to := range map[string]string{
		"link.txt": "a.txt", "out": outside, "git": ".git", "dir/up": "../..",
		"out.txt": filepath.Join(outside, "a.txt"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, MaxBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	before, beforeOutside := contents(t, dir), contents(t, outside)
	edit := func(name string) string {
		return "--- a/" + name + "\n+++ b/" + name + "\n@@ -1,2 +1,2 @@\n first line\n-second line\n+2nd line\n"
	}
	add := func(name string) string { return "*** Add File: " + name + "\n+x\n*** End Patch\n" }
	for patch, want := range map[string]string{
		edit("link.txt"):    "link.txt: refused: the file is a symbolic link",
		edit("out.txt"):     "out.txt: refused: the file is a symbolic link",
		edit("out/a.txt"):   "out/a.txt: refused: out is a symbolic link",
		edit("git/config"):  "git/config: refused: git is a symbolic link",
		edit(".git/config"): "refused: the path is in .git",
		edit("dir"):         "dir: refused: not a regular file",
		edit("a.txt/b"):     "a.txt/b: refused: a.txt is not a directory",
		edit("large"):       "large: refused: the file has 10485761 bytes",
		edit("none.txt"):    "none.txt: does not exist",
		add("out/new"):      "out/new: refused: out is a symbolic link",
		add("dir/up/new"):   "dir/up/new: refused: dir/up is a symbolic link",
		add("git/hooks/x"):  "git/hooks/x: refused: git is a symbolic link",
		add("../x"):         "../x: refused: not a path",
		add("dir/../../x"):  "dir/../../x: refused: not a path",
		add(outside + "/x"): "/x: refused: not a path",
		add("x\x1b[31m"):    "refused: the path has control characters",
		"diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to out/a.txt\n": "out is a symbolic link",
		"diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to dir/x\n":     "be renamed to dir/x, which exists",
	} {
		r := applyTo(t, dir, twoFiles+patch, false)
		if text := strings.Join(r.Lines(), "\n"); r.Applied || !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", patch, text, want)
		}
	}
	if d := cmp.Diff(before, contents(t, dir)); d != "" {
		t.Errorf("files were changed:\n%s", d)
	}
	if d := cmp.Diff(beforeOutside, contents(t, outside)); d != "" {
		t.Errorf("files outside were changed:\n%s", d)
	}
	if _, err := Apply(filepath.Join(dir, "none"), &Patch{}, false); err == nil {
		t.Error("a directory that does not exist is no error")
	}
}

// If files cannot be replaced, those that were replaced already are restored.
func TestRestore(t *testing.T) {
	t.Parallel()
	dir := directory(t, map[string]string{"a.txt": "first line\nsecond line\n", "old.txt": "old\n", "z.txt": "z\n"})
	before := contents(t, dir)
	p, err := Parse(twoFiles + "--- a/z.txt\n+++ b/z.txt\n@@ -1 +1 @@\n-z\n+zz\n")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tr := &tree{root: root, seen: map[string]fs.FileInfo{}}
	changes, _ := p.Plan(tr.read)
	all, err := tr.stage(changes)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d changes: %v", len(all), err)
	}
	if err := os.Remove(filepath.Join(dir, all[3].temporary)); err != nil {
		t.Fatal(err)
	}
	if err := tr.swap(all); err == nil || strings.Contains(err.Error(), "restoring") {
		t.Errorf("%v", err)
	}
	tr.discard(all)
	if d := cmp.Diff(before, contents(t, dir)); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// A file that was changed after it was read is not overwritten.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"content": func(path string) error { return os.WriteFile(path, []byte("other\n"), 0o600) },
		"time":    func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
		"deleted": os.Remove,
		"created": func(path string) error { return os.WriteFile(filepath.Join(path, "../new"), nil, 0o600) },
		"replaced": func(path string) error {
			info, err := os.Stat(path)
			other := filepath.Join(path, "../b.txt")
			return errors.Join(err, os.Chtimes(other, time.Time{}, info.ModTime()), os.Rename(other, path))
		},
	} {
		dir := directory(t, map[string]string{
			"a.txt": "first line\nsecond line\n", "b.txt": "first line\nsecond line\n", "old.txt": "old\n",
		})
		p, err := Parse(twoFiles)
		if err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		tr := &tree{root: root, seen: map[string]fs.FileInfo{}}
		changes, _ := p.Plan(tr.read)
		if err := change(filepath.Join(dir, "a.txt")); err != nil {
			t.Fatal(err)
		}
		before := contents(t, dir)
		all, err := tr.stage(changes)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		tr.discard(all)
		if d := cmp.Diff(before, contents(t, dir)); d != "" {
			t.Errorf("%s: (-before +after):\n%s", name, d)
		}
	}
}
