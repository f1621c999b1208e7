package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/config"
)

func TestFindTests(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{nil, ""},
		{map[string]string{"README.md": "make test"}, ""},
		{map[string]string{"Makefile": "build:\n\tgo build\n\ntest: build ## all tests\n\tgo test\n"}, "make test"},
		{map[string]string{"Makefile": "test:"}, "make test"},
		{map[string]string{"GNUmakefile": ".PHONY: test\ntest :\n\ttrue\n", "go.mod": "module x"}, "make test"},
		{map[string]string{"makefile": "test:=x\ntests:\n#test:\n\ttest:\n", "go.mod": "module x"}, "go test ./..."},
		{map[string]string{"package.json": `{"scripts": {"test": "vitest"}}`}, "npm test"},
		{map[string]string{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`}, ""},
		{map[string]string{"package.json": `{"scripts": {"test": ["x"]}}`, "Cargo.toml": ""}, "cargo test"},
		{map[string]string{"package.json": `{"scripts"`, "pyproject.toml": ""}, "pytest"},
		{map[string]string{"package.json": `{"x": "` + strings.Repeat("x", maxRead) + `", "scripts": {"test": "x"}}`}, ""},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := findTests(dir); got != c.want {
			t.Errorf("%.200q: %q, expected %q", c.files, got, c.want)
		}
	}
	// What is no file, or cannot be read at once, is passed over.
	dir := t.TempDir()
	err := syscall.Mkfifo(filepath.Join(dir, "Makefile"), 0o600)
	if err2 := os.Mkdir(filepath.Join(dir, "go.mod"), 0o700); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if got := findTests(dir); got != "" {
		t.Errorf("%q", got)
	}
}

// The pipeline has the tests of the repository. Without tests its file is refused until they are written into it.
func TestPipelineTemplate(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{dir: "go test ./...", filepath.Join(dir, "empty"): ""} {
		paths, tests, err := WriteTemplate(dir, "pipeline")
		if err != nil || len(paths) != 1 || tests != want {
			t.Fatalf("%q, %q, %v", paths, tests, err)
		}
		text, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			_, err := config.Parse(paths[0], text)
			if err == nil || !strings.Contains(err.Error(), "[agent.pipeline] without test") {
				t.Errorf("%v", err)
			}
			text = []byte(strings.ReplaceAll(string(text), "# test = ", "test = "))
		}
		tree, err := config.Parse(paths[0], text)
		if err != nil {
			t.Fatal(err)
		}
		if len(tree.Root.Children) != 2 {
			t.Errorf("%+v", tree.Root.Children)
		}
	}
}
