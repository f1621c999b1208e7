package secret

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", " tok \n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET_LINES", "a\nInjected: b")
	for _, c := range []struct {
		from spec.Secret
		want string
		err  string
	}{
		{spec.Secret{File: good}, "tok", ""},
		{spec.Secret{File: link}, "tok", ""},
		{spec.Secret{File: file("empty", "\n")}, "", "empty is empty, expected a secret"},
		{spec.Secret{File: file("large", strings.Repeat("x", MaxSize+1))}, "", "is not one line of at most 16384"},
		{spec.Secret{File: filepath.Join(dir, "missing")}, "", "no such file"},
		{spec.Secret{File: fifo}, "", "fifo is not a regular file"},
		{spec.Secret{File: dir}, "", "is not a regular file"},
		{spec.Secret{Env: "SECRET_MISSING"}, "", "the variable SECRET_MISSING is not set in the environment of"},
		{spec.Secret{Env: "SECRET_LINES"}, "", "SECRET_LINES is not one line"},
	} {
		got, err := Read(c.from)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: %q, %v, want %q, %q", c.from, got, err, c.want, c.err)
		}
	}
}
