package landlock_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/landlock"
)

// tree creates files with "text" in a new directory; a name that ends in / is a directory, and
// "a -> b" a symbolic link.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, isLink := strings.Cut(name, " -> ")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte("text"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// in makes paths absolute; a "-" stays in front.
func in(dir string, paths ...string) []string {
	all := []string{}
	for _, p := range paths {
		name, optional := landlock.Optional(p)
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if optional {
			name = "-" + name
		}
		all = append(all, name)
	}
	return all
}

func TestCheck(t *testing.T) {
	dir := tree(t, "work/sub/file", "out/", "inner -> work/sub", "work/leads-out -> ../out", "loop -> loop",
		"work/own -> sub")
	for _, c := range []struct {
		name                string
		readWrite, readOnly []string
		wrong               string // "" if there is nothing wrong
	}{
		{"a directory and a file", []string{"work", "work/sub/file"}, nil, ""},
		{"nothing", nil, nil, ""},
		{"a link that no agent can change", []string{"inner"}, nil, ""},
		{"that link, and its target", []string{"inner", "work"}, nil, ""},
		{"a protected path", []string{"work"}, []string{"work/sub"}, ""},
		{"writable in protected in writable", []string{"work", "work/sub/file"}, []string{"work/sub"}, ""},
		{"what may be missing", []string{"work", "-none"}, []string{"-work/none/deep"}, ""},
		{"missing", []string{"none"}, nil, "read_write_paths: " + dir + "/none: file does not exist; create it"},
		{"missing below a file", []string{"work/sub/file/x"}, nil, "does not exist"},
		{"missing and protected", []string{"work"}, []string{"work/none"}, "read_only_paths: " + dir + "/work/none"},
		{"both", []string{"work"}, []string{"inner/..", "work/sub/.."}, "it is in read_write_paths, too"},
		{"both by a link", []string{"work/sub"}, []string{"inner"}, "it is in read_write_paths, too"},
		{"a link that the agent can change", []string{"work", "work/leads-out"}, nil, "name the target instead"},
		{"a link inside", []string{"work", "work/own/file"}, nil, dir + "/work/own on the way is in " + dir + "/work"},
		{"a loop", []string{"loop/x"}, nil, "too many levels"},
	} {
		p := landlock.New(in(dir, c.readWrite...), in(dir, c.readOnly...))
		err := p.Check()
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.wrong)
		}
	}
	for _, path := range []string{"work", "", "-", "/a\x00b"} {
		if err := landlock.New([]string{path}, nil).Check(); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
	if err := landlock.New(in(dir, "none"), nil).Check(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, expected %v", err, fs.ErrNotExist)
	}
}

// No paths are no limit; an empty list is.
func TestNew(t *testing.T) {
	if landlock.New(nil, []string{"/a"}) != nil {
		t.Error("a limit without writable paths")
	}
	if landlock.New([]string{}, nil) == nil {
		t.Error("no limit with an empty list")
	}
}
