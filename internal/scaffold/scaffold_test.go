package scaffold

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/config/grove"
	"github.com/coppice-dev/coppice/internal/spec"
)

// tree returns the paths in a directory and the contents of files.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil || name == "." || d.IsDir() {
			all[name+"/"] = ""
			return err
		}
		data, err := os.ReadFile(p)
		all[name] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "garden")
	paths, err := Write(dir, "garden")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".gitignore", "README.md", "grove.toml", "src/main.sg"}
	var got []string
	for _, p := range paths {
		name, err := filepath.Rel(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(name))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}
	g, err := grove.Load(filepath.Join(dir, grove.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if g.Name != "garden" || g.Entry.Value != filepath.Join(dir, "src", "main.sg") || len(g.Notices) > 0 {
		t.Errorf("the settings are %+v", g)
	}
	if _, err := os.Stat(g.Entry.Value); err != nil {
		t.Error(err)
	}
	// Git ignores the state.
	if kept, _ := filepath.Rel(dir, g.Persistence.Path.Value); !strings.Contains(tree(t, dir)[".gitignore"], "/"+filepath.Dir(kept)+"/\n") {
		t.Errorf("%s is not ignored", kept)
	}
}

// TestNames checks that the settings are valid for every name.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		files, err := render("project", struct{ Name string }{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.name != grove.FileName || spec.CheckName(name) != "" {
				continue
			}
			g, err := grove.Parse(f.name, f.content)
			if err != nil {
				t.Fatal(err)
			}
			if g.Name != name {
				t.Errorf("got %q, want %q", g.Name, name)
			}
		}
	})
	if _, err := Write(filepath.Join(t.TempDir(), "x"), "a/b"); err == nil {
		t.Error("a name with a slash was taken")
	}
}

// TestNothingLost checks that nothing changes if a file of the project exists or cannot be
// written.
func TestNothingLost(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"README":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "README.md"), []byte("mine"), 0o644) },
		"dangling": func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "grove.toml")) },
		"src":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "src"), []byte("mine"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			paths, err := Write(dir, "garden")
			if err == nil || paths != nil {
				t.Fatalf("wrote %q", paths)
			}
			if name != "src" && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%v is not fs.ErrExist", err)
			}
			after, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(before) != 1 || len(after) != 1 || before[0].Name() != after[0].Name() || before[0].Type() != after[0].Type() {
				t.Errorf("there was %v, now there is %v", before, after)
			}
		})
	}
	// Directories that it created are removed.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(filepath.Join(dir, "file", "x"), "x"); err == nil {
		t.Error("wrote below a file")
	}
	if err := os.Mkdir(filepath.Join(dir, "y"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "y", "src")); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(filepath.Join(dir, "y"), "y"); err == nil {
		t.Error("wrote below a dangling link")
	}
	if got := len(tree(t, dir)); got != 4 { // the directory, file, y, y/src
		t.Errorf("left behind: %v", tree(t, dir))
	}
}

// TestWriteTwice checks that a second Write does not change the files of the first.
func TestWriteTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if _, err := Write(dir, "x"); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	if _, err := Write(dir, "y"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	for name, content := range tree(t, dir) {
		if before[name] != content {
			t.Errorf("%s has changed", name)
		}
	}
}

// A file that exists keeps all files of a template from being written.
func TestWriteTemplateOnce(t *testing.T) {
	for _, template := range Templates() {
		dir := t.TempDir()
		paths, _, err := WriteTemplate(dir, template)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(paths[len(paths)-1], []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, p := range paths[:len(paths)-1] {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
		before := tree(t, dir)
		if _, _, err := WriteTemplate(dir, template); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v", err)
		}
		if after := tree(t, dir); !maps.Equal(before, after) {
			t.Errorf("%v, before %v", after, before)
		}
	}
	entries, err := os.ReadDir("templates")
	if err != nil || len(entries) != len(Templates()) {
		t.Errorf("%d directories of templates, %v: %v", len(entries), Templates(), err)
	}
}
