package load_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/sage/load"
)

// tree creates files named by the part before a space. The rest is their content, or the target of
// a symbolic link after ->.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name, text, _ := strings.Cut(f, " ")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWalk(t *testing.T) {
	dir := tree(t, "b/c.sg x", "a.sg x", "a.txt x", ".hidden.sg x", ".git/d.sg x", "b/.e/f.sg x", "b/loop -> ..", "b/g.sg -> ../a.sg", "z/y/x.sg x", "sg x")
	if err := os.Symlink(dir, filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{dir, filepath.Join(dir, "root"), dir + "/"} {
		var got []string
		for path, err := range load.Walk(root) {
			if err != nil {
				t.Error(err)
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Error(err)
			}
			got = append(got, rel)
		}
		if d := cmp.Diff([]string{"a.sg", "b/c.sg", "z/y/x.sg"}, got); d != "" {
			t.Errorf("%s: %s", root, d)
		}
	}
	for path := range load.Walk(dir) {
		if filepath.Base(path) != "a.sg" {
			t.Errorf("%s after the end", path)
		}
		break
	}
	for _, err := range load.Walk(filepath.Join(dir, "none")) {
		if err == nil || !strings.Contains(err.Error(), "none: no such file") {
			t.Errorf("got %v", err)
		}
	}
}
