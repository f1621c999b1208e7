package format_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/sage/format"
	"github.com/coppice-dev/coppice/sage/load"
)

const unformatted = "fn f() -> Int{return 1;}// one\n"
const formatted = "fn f() -> Int {\n    return 1;\n} // one\n"

func write(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.sg")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func plan(t *testing.T, path string) format.Change {
	t.Helper()
	c, diagnostics, err := format.Read(path)
	if err != nil || diagnostics != nil {
		t.Fatal(err, diagnostics)
	}
	return c
}

// alone fails if the directory contains anything except the file.
func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("there is %v, %v; want the file alone", entries, err)
	}
}

func TestWrite(t *testing.T) {
	tests := []struct{ name, before, after string }{
		{"plain", unformatted, formatted},
		{"line ends", "// one\r\nfn f() -> Int {\r\n    // two\r\n\treturn 1;\r\n}\r\n", "// one\nfn f() -> Int {\n    // two\n    return 1;\n}\n"},
		{"byte order mark", "\ufeff// one\nfn f() -> Int { return 1; }", "// one\nfn f() -> Int {\n    return 1;\n}\n"},
		{"no end", "fn f() -> Int {\n    return 1;\n} // one", formatted},
		{"line end in a string", "const A: String = \"a\r\nb\";\r\n", "const A: String = \"a\nb\";\n"},
		{"only a comment", "\ufeff// one", "// one\n"},
		{"nothing", "", ""},
		{"only blanks", " \r\n\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.before, 0o640)
			c := plan(t, path)
			if c.Needed() != (test.before != test.after) {
				t.Errorf("needed: %v", c.Needed())
			}
			if err := c.Write(); err != nil {
				t.Fatal(err)
			}
			if got := read(t, path); got != test.after {
				t.Errorf("got %q, want %q", got, test.after)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			alone(t, path)
			if plan(t, path).Needed() {
				t.Error("not in form after formatting")
			}
		})
	}
}

func TestWriteThroughLink(t *testing.T) {
	path := write(t, unformatted, 0o755)
	link := filepath.Join(t.TempDir(), "link.sg")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := plan(t, link).Write(); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != path {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o755 || read(t, path) != formatted {
		t.Errorf("%v, %v, %q", info.Mode(), err, read(t, path))
	}
}

func TestReadOnly(t *testing.T) {
	path := write(t, unformatted, 0o444)
	err := plan(t, path).Write()
	if err == nil || !strings.Contains(err.Error(), "chmod u+w") || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if read(t, path) != unformatted {
		t.Error("it was changed")
	}
	alone(t, path)
}

func TestChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"written": func(path string) error { return os.WriteFile(path, []byte(unformatted+"// new\n"), 0) },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte(unformatted), 0o600), os.Rename(path+"2", path))
		},
		"empty": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, unformatted, 0o600)
			c := plan(t, path)
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			want := read(t, path)
			if err := c.Write(); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
				t.Errorf("got %v", err)
			}
			if got := read(t, path); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			alone(t, path)
		})
	}
}

func TestGoneMeanwhile(t *testing.T) {
	path := write(t, unformatted, 0o600)
	c := plan(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there again: %v", err)
	}
}

func TestErrorsOfForm(t *testing.T) {
	path := write(t, "fn f( {", 0o600)
	c, diagnostics, err := format.Read(path)
	if err != nil || len(diagnostics) == 0 || c.After != "" || diagnostics[0].Span.Position().Name != path {
		t.Errorf("%v %v %v", c, diagnostics, err)
	}
}

func TestNoProgram(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.sg")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.sg")
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, load.MaxSize+1)); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop.sg")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		fifo: "special file", large: "more than", loop: "links", dir: "is a directory", filepath.Join(dir, "none.sg"): "no such file",
	} {
		if _, _, err := format.Read(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
