package private

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestDir(t *testing.T) {
	base := t.TempDir()
	path := func(name string) string { return filepath.Join(base, name) }
	if err := errors.Join(
		os.Mkdir(path("open"), 0o755), os.Symlink(path("open"), path("link")), os.WriteFile(path("file"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]bool{"open": false, "link": true, "file": true} {
		err := Dir(path(name))
		if unsafe := new(Error); errors.As(err, &unsafe) != bad || !bad && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, _ := os.Stat(path("open")); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := Dir(path("none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if err := NoLinks(base); err == nil {
		t.Error("a link is not found")
	}
	if err := errors.Join(NoLinks(path("open")), NoLinks(path("none"))); err != nil {
		t.Error(err)
	}
}

func TestOpenFile(t *testing.T) {
	base := t.TempDir()
	path := func(name string) string { return filepath.Join(base, name) }
	if err := errors.Join(
		os.Symlink(path("target"), path("dangling")), os.Symlink(path("file"), path("link")),
		syscall.Mkfifo(path("pipe"), 0o600), os.Mkdir(path("dir"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path("file"), []byte("long")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dangling", "link", "pipe"} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_APPEND} {
			var unsafe *Error
			if _, err := OpenFile(path(name), flag); !errors.As(err, &unsafe) || unsafe.Path != path(name) {
				t.Errorf("%s with flags %#x: %v", name, flag, err)
			}
		}
	}
	if _, err := OpenFile(path("dir"), os.O_RDONLY); err == nil {
		t.Error("a directory is opened")
	}
	if _, err := os.Lstat(path("target")); err == nil {
		t.Error("made through a link")
	}
	if text, _ := os.ReadFile(path("file")); string(text) != "long" {
		t.Errorf("the file has %q", text)
	}
	if err := WriteFile(path("file"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path("file"), 1); err != nil || string(text) != "x" {
		t.Errorf("read %q, %v", text, err)
	}
	for _, name := range []string{"file", "link", "pipe", "dir"} { // the file is too large
		if text, err := ReadFile(path(name), 0); !errors.As(err, new(*Error)) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if text, err := ReadLinked(path(name), 0); !errors.As(err, new(*Error)) {
			t.Errorf("%s, with links: %q, %v", name, text, err)
		}
	}
	if text, err := ReadLinked(path("link"), 1); err != nil || string(text) != "x" {
		t.Errorf("read through a link: %q, %v", text, err)
	}
	if info, _ := os.Stat(path("file")); info.Size() != 1 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %d bytes", info.Mode(), info.Size())
	}
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("secret"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for mode := range os.FileMode(0o1000) {
		if mode&0o400 == 0 {
			continue // which only root reads
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		text, err := ReadSecret(file, 6)
		if mode&0o077 == 0 {
			if string(text) != "secret" || err != nil {
				t.Errorf("%v: %q, %v", mode, text, err)
			}
		} else if unsafe := new(Error); !errors.As(err, &unsafe) || unsafe.Fix != "run: chmod 600 "+file {
			t.Errorf("%v: %q, %v", mode, text, err)
		}
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(file, 5); !errors.As(err, new(*Error)) {
		t.Errorf("too large: %v", err)
	}
	if _, err := ReadSecret(link, 6); !errors.As(err, new(*Error)) {
		t.Errorf("link: %v", err)
	}
	if _, err := ReadSecret(filepath.Join(dir, "none"), 6); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, 1, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSecret(file, 6); !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), "user 1") {
			t.Errorf("of another user: %v", err)
		}
	}
}

func TestReplace(t *testing.T) {
	for _, replace := range []func(string, []byte) error{Replace, ReplaceSynced} {
		testReplace(t, replace)
	}
}

func testReplace(t *testing.T, replace func(string, []byte) error) {
	t.Helper()
	dir := t.TempDir()
	file, target := filepath.Join(dir, "file"), filepath.Join(dir, "target")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o644), os.Symlink(target, file)); err != nil {
		t.Fatal(err)
	}
	if err := replace(file, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(file, 10); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if text, _ := os.ReadFile(target); string(text) != "old" {
		t.Errorf("written through a link: %q", text)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{filepath.Join(dir, "dir"), filepath.Join(dir, "none", "file")} {
		if err := replace(bad, nil); err == nil {
			t.Errorf("%s was replaced", bad)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
		t.Errorf("left over: %v, %v", all, err)
	}
}
