package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func files(t *testing.T) (*Files, string) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	f, dir := files(t)
	ctx := bounded(t)
	must(t, f.Mkdir(ctx, "a/b"))
	must(t, f.Mkdir(ctx, "a/b"))
	must(t, f.Write(ctx, "a/b/é.txt", "one\n"))
	must(t, f.Append(ctx, "a/b/é.txt", "two\n"))
	must(t, f.Append(ctx, "a/new", "x"))
	if s, err := f.Read(ctx, "a/b/../b/é.txt"); s != "one\ntwo\n" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	must(t, f.Write(ctx, "a/b/é.txt", ""))
	if s, err := f.Read(ctx, "a/b/é.txt"); s != "" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if names, err := f.List(ctx, "a"); !slices.Equal(names, []string{"b", "new"}) || err != nil {
		t.Errorf("%q, %v", names, err)
	}
	if names, err := f.List(ctx, ""); !slices.Equal(names, []string{"a"}) || err != nil {
		t.Errorf("%q, %v", names, err)
	}
	for name, want := range map[string]bool{"a": true, "a/new": true, ".": true, "b": false, "a/new/x": false} {
		if ok, err := f.Exists(ctx, name); ok != want || err != nil && name != "a/new/x" {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	refused(t, "not empty", f.Delete(ctx, "a/b"), "not empty")
	must(t, f.Delete(ctx, "a/b/é.txt"))
	must(t, f.Delete(ctx, "a/b"))
	if err := f.Delete(ctx, "a/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := f.Read(ctx, "a/no"); !errors.Is(err, fs.ErrNotExist) || err.Error() != fmt.Sprintf("read %q in %s: no such file or directory", "a/no", dir) {
		t.Error(err)
	}
}

// Nothing outside is read, written, listed, seen or removed.
func TestFilesStayInside(t *testing.T) {
	f, dir := files(t)
	ctx := bounded(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	must(t, os.Mkdir(outside, 0o755))
	secret := filepath.Join(outside, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o644))
	must(t, os.Symlink(outside, dir+"/absolute"))
	must(t, os.Symlink("../outside", dir+"/relative"))
	must(t, os.Symlink("absolute/..", dir+"/twice"))
	must(t, os.Symlink("loop", dir+"/loop"))
	must(t, os.Mkdir(dir+"/d", 0o755))
	for _, name := range []string{"../outside/secret", "d/../../outside/secret", secret, "absolute/secret", "relative/secret", "twice/outside/secret", "loop/secret", "loop", "d/\x00", "..", "/", "../root/../outside/secret"} {
		for what, err := range map[string]error{
			"read":   errorOf(f.Read(ctx, name)),
			"write":  f.Write(ctx, name+"/new", "x"),
			"append": f.Append(ctx, name, "x"),
			"mkdir":  f.Mkdir(ctx, name+"/x"),
			"list":   errorOf(f.List(ctx, name)),
			"delete": f.Delete(ctx, name+"/x"),
		} {
			if err == nil {
				t.Errorf("%s %q was done", what, name)
			}
		}
		if ok, _ := f.Exists(ctx, name); ok {
			t.Errorf("%q is seen", name)
		}
	}
	for _, name := range []string{secret, "../outside/secret", "relative/secret"} {
		if err := f.Write(ctx, name, "x"); err == nil {
			t.Errorf("%q was written", name)
		}
		if err := f.Delete(ctx, name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	refused(t, "absolute", errorOf(f.Read(ctx, secret)), "names are relative to "+dir+" and stay in it")
	for _, name := range []string{".", "", "d/..", "./"} {
		if f.Delete(ctx, name) == nil {
			t.Errorf("%q was removed", name)
		}
		if f.Write(ctx, name, "x") == nil {
			t.Errorf("%q was written", name)
		}
	}
	// A link is removed or replaced itself.
	must(t, os.Symlink(secret, dir+"/link"))
	must(t, f.Write(ctx, "link", "mine"))
	must(t, os.Remove(dir+"/link"))
	must(t, os.Symlink(secret, dir+"/link"))
	must(t, f.Delete(ctx, "link"))
	if b, err := os.ReadFile(secret); string(b) != "secret" || err != nil {
		t.Errorf("it is %q, %v", b, err)
	}
	if left, _ := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("outside are %v", left)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// What would hang, or is too large, or is no text.
func TestFilesRefuse(t *testing.T) {
	f, dir := files(t)
	ctx := bounded(t)
	must(t, syscall.Mkfifo(dir+"/pipe", 0o644))
	must(t, os.WriteFile(dir+"/binary", []byte("a\xffb"), 0o644))
	must(t, os.Mkdir(dir+"/d", 0o755))
	big, err := os.Create(dir + "/big")
	must(t, err)
	must(t, big.Truncate(1<<40))
	must(t, big.Close())
	large := strings.Repeat("x", MaxFile+1)
	for want, err := range map[string]error{
		"not a regular file (p":                errorOf(f.Read(ctx, "pipe")),
		"append to \"pipe\"":                   f.Append(ctx, "pipe", "x"),
		"write \"pipe\"":                       f.Write(ctx, "pipe", "x"),
		"list \"pipe\"":                        errorOf(f.List(ctx, "pipe")),
		"it is not UTF-8 text (3 bytes)":       errorOf(f.Read(ctx, "binary")),
		"it has more than 10485760 bytes":      errorOf(f.Read(ctx, "big")),
		"read \"d\" in " + dir + ": is a dir":  errorOf(f.Read(ctx, "d")),
		"write \"d\" in " + dir + ": is a dir": f.Write(ctx, "d", "x"),
		"write \"n\" in":                       f.Write(ctx, "n", large),
		"append to \"n\" in":                   f.Append(ctx, "n", large),
		"write \"no/x\" in":                    f.Write(ctx, "no/x", "x"),
		"write \"n/\" in":                      f.Write(ctx, "n/", "x"),
		"make the directory \"pipe\"":          f.Mkdir(ctx, "pipe"),
		"not a directory":                      errorOf(f.List(ctx, "binary")),
	} {
		refused(t, want, err, want)
	}
	if ok, err := f.Exists(ctx, "n"); ok || err != nil {
		t.Error(ok, err)
	}
	for what, err := range map[string]error{
		"read": errorOf(f.Read(stopped(), "binary")), "write": f.Write(stopped(), "n", "x"), "append": f.Append(stopped(), "n", "x"), "exists": errorOf(f.Exists(stopped(), "n")),
		"list": errorOf(f.List(stopped(), "d")), "delete": f.Delete(stopped(), "d"), "mkdir": f.Mkdir(stopped(), "n"),
	} {
		if !errors.Is(err, errStopped) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := OpenFiles(dir + "/no"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), EnvRoot) {
		t.Error(err)
	}
	if _, err := OpenFiles(dir + "/binary"); err == nil {
		t.Error("a file was opened as a directory")
	}
}

// A reader sees a file as it was or as it is, and no trash stays behind.
func TestFilesWriteIsAtomic(t *testing.T) {
	f, dir := files(t)
	ctx := bounded(t)
	contents := []string{strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<17)}
	must(t, f.Write(ctx, "x", contents[0]))
	must(t, os.Chmod(dir+"/x", 0o640))
	var writers sync.WaitGroup
	for i := range 2 {
		writers.Go(func() {
			for range 20 {
				if err := f.Write(ctx, "x", contents[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		if s, err := f.Read(ctx, "x"); err != nil || !slices.Contains(contents, s) {
			t.Fatalf("%d bytes, %v", len(s), err)
		}
	}
	writers.Wait()
	if names, _ := f.List(ctx, "."); !slices.Equal(names, []string{"x"}) {
		t.Errorf("left are %q", names)
	}
	if info, err := os.Stat(dir + "/x"); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must(t, os.Chmod(dir+"/x", 0o440))
	if err := f.Write(ctx, "x", "no"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that is not to be written: %v", err)
	}
}

func TestFilesAppendsDoNotMix(t *testing.T) {
	f, _ := files(t)
	ctx := bounded(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 50 {
				if err := f.Append(ctx, "log", strings.Repeat(string(rune('a'+i)), 999)+"\n"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s, err := f.Read(ctx, "log")
	must(t, err)
	n := 0
	for line := range strings.Lines(s) {
		if n++; line != strings.Repeat(line[:1], 999)+"\n" {
			t.Fatalf("line %d is mixed: %.50q", n, line)
		}
	}
	if n != 200 {
		t.Errorf("%d lines", n)
	}
}
