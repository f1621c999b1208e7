package landlock_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/landlock/landlocktest"
)

// confined runs f on a thread of its own that may write to the paths only. f must not end the
// test.
func confined(t *testing.T, p *landlock.Paths, f func()) {
	t.Helper()
	rules, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	landlocktest.OnOwnThread(func() {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		if err := rules.Restrict(); err != nil {
			t.Error(err)
			return
		}
		f()
	})
}

// overwrite writes to a file that exists.
func overwrite(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("changed")
	return errors.Join(err, f.Close())
}

func create(path string) error { return os.WriteFile(path, []byte("new"), 0o644) }

func mknod(mode uint32) func(string) error {
	return func(path string) error { return unix.Mknod(path, mode|0o600, int(unix.Mkdev(1, 3))) }
}

// action is an attempt to change something.
type action struct {
	name string
	do   func() error
}

// attempts returns all ways to change the contents of dir, a directory with the files "file",
// "file2" and "dir/file". from is another directory with a file "file".
func attempts(dir, from string) []action {
	at := func(name string) string { return filepath.Join(dir, name) }
	other := func(name string) string { return filepath.Join(from, name) }
	on := func(name string, f func(string) error) func() error { return func() error { return f(at(name)) } }
	return []action{
		{"write", on("file", overwrite)},
		{"append", func() error {
			f, err := os.OpenFile(at("file"), os.O_RDWR|os.O_APPEND, 0)
			if err == nil {
				err = f.Close()
			}
			return err
		}},
		{"truncate at open", func() error {
			fd, err := unix.Open(at("file"), unix.O_RDONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}},
		{"truncate", func() error { return os.Truncate(at("file"), 1) }},
		{"/proc/self/root", func() error { return overwrite("/proc/self/root" + at("file")) }},
		{"/proc/self/cwd", func() error {
			cwd, err := os.Getwd()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(cwd, at("file"))
			if err != nil {
				return err
			}
			return overwrite("/proc/self/cwd/" + rel)
		}},
		{"create", on("new", create)},
		{"unnamed file", func() error {
			fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}},
		{"mkdir", on("newdir", func(p string) error { return os.Mkdir(p, 0o755) })},
		{"symlink", on("newlink", func(p string) error { return os.Symlink("file", p) })},
		{"fifo", on("fifo", mknod(unix.S_IFIFO))},
		{"socket", on("sock", mknod(unix.S_IFSOCK))},
		{"hard link", func() error { return os.Link(other("file"), at("linked")) }},
		{"hard link inside", func() error { return os.Link(at("file"), at("linked2")) }},
		{"rename inside", func() error { return os.Rename(at("file2"), at("file3")) }},
		{"rename in", func() error { return os.Rename(other("file"), at("in")) }},
		{"rename over", func() error { return os.Rename(other("over"), at("file")) }},
		{"exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, other("exchange"), unix.AT_FDCWD, at("file"), unix.RENAME_EXCHANGE)
		}},
		{"rename a directory", on("dir", func(p string) error { return os.Rename(p, p+"2") })},
		{"rename it back", on("dir", func(p string) error { return os.Rename(p+"2", p) })},
		{"rename out", func() error { return os.Rename(at("dir/file"), other("out")) }},
		{"remove a directory", on("dir", syscall.Rmdir)},
		{"remove", on("file", syscall.Unlink)},
	}
}

var (
	attemptFiles = []string{"file", "file2", "dir/file"}
	fromFiles    = []string{"file", "over", "exchange"}
)

func named(dir string, names []string) (all []string) {
	for _, n := range names {
		all = append(all, dir+"/"+n)
	}
	return all
}

// contents lists all files below a directory with their text.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := []byte(d.Type().String())
		if d.Type().IsRegular() {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%s %s\n", path, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// denied reports whether the kernel has refused it. Landlock answers EXDEV where only moving or
// linking from there is refused.
func denied(err error) bool { return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EXDEV) }

// R10: the kernel denies writes to protected paths.
func TestKernelDeniesWritesToProtectedPaths(t *testing.T) {
	landlocktest.Need(t)
	files := append(named("w/from", fromFiles), named("w/free", attemptFiles)...)
	files = append(files, named("w/protected", attemptFiles)...)
	files = append(files, named("outside", attemptFiles)...)
	files = append(files, "w/go.mod", "w/main.go", "w/link -> protected/file")
	dir := tree(t, files...)
	at := func(name string) string { return filepath.Join(dir, name) }
	open, err := os.OpenFile(at("outside/file"), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	p := landlock.New(in(dir, "w"), in(dir, "w/protected", "w/go.mod", "-w/.github"))
	before := contents(t, at("outside")) + contents(t, at("w/protected"))
	confined(t, p, func() {
		for _, place := range []string{"outside", "w/protected"} {
			for _, a := range attempts(at(place), at("w/from")) {
				if err := a.do(); !denied(err) && !(a.name == "rename it back" && errors.Is(err, syscall.ENOENT)) {
					t.Errorf("%s in %s: %v, expected it to be denied", a.name, place, err)
				}
			}
		}
		for _, a := range []action{
			{"write a protected file", func() error { return overwrite(at("w/go.mod")) }},
			{"truncate a protected file", func() error { return os.Truncate(at("w/go.mod"), 0) }},
			{"remove a protected file", func() error { return os.Remove(at("w/go.mod")) }},
			{"rename over a protected file", func() error { return os.Rename(at("w/free/file"), at("w/go.mod")) }},
			{"move a protected file", func() error { return os.Rename(at("w/go.mod"), at("w/free/go.mod")) }},
			{"link a protected file", func() error { return os.Link(at("w/go.mod"), at("w/free/go.mod")) }},
			{"move a protected directory", func() error { return os.Rename(at("w/protected"), at("w/free/p")) }},
			{"create a missing protected directory", func() error { return os.Mkdir(at("w/.github"), 0o755) }},
			{"link to a missing protected directory", func() error { return os.Symlink("free", at("w/.github")) }},
			{"write through a link", func() error { return overwrite(at("w/link")) }},
			{"create next to a protected file", func() error { return create(at("w/new")) }},
			{"remove next to a protected file", func() error { return os.Remove(at("w/main.go")) }},
			{"move the writable directory", func() error { return os.Rename(at("w"), at("v")) }},
			{"open again for writing", func() error {
				return overwrite("/proc/self/fd/" +
					strconv.Itoa(int(open.Fd())))
			}},
			{"a device", func() error { return overwrite("/dev/kmsg") }},
			{"a setting of the kernel", func() error { return overwrite("/proc/sys/kernel/hostname") }},
			{"mount", func() error { return unix.Mount(at("w/free"), at("w/protected"), "", unix.MS_BIND, "") }},
		} {
			if err := a.do(); !denied(err) && !errors.Is(err, syscall.EPERM) {
				t.Errorf("%s: %v, expected it to be denied", a.name, err)
			}
		}
		if err := os.Symlink(at("outside/file"), at("w/free/to")); err != nil {
			t.Error(err)
		}
		if err := overwrite(at("w/free/to")); !denied(err) {
			t.Errorf("writing through an own link: %v", err)
		}
	})
	if now := contents(t, at("outside")) + contents(t, at("w/protected")); now != before {
		t.Errorf("it has changed:\n%s\nto:\n%s", before, now)
	}
	if text, err := os.ReadFile(at("w/go.mod")); string(text) != "text" || err != nil {
		t.Errorf("go.mod is %q, %v", text, err)
	}
}

// Everything is allowed in a writable directory, and next to a protected one as documented.
func TestWritable(t *testing.T) {
	landlocktest.Need(t)
	files := append(named("w/from", fromFiles), named("w/free", attemptFiles)...)
	dir := tree(t, append(append(files, named("own/from", fromFiles)...), append(named("own/dir", attemptFiles),
		"w/protected/inner/file", "w/main.go", "outside/file")...)...)
	at := func(name string) string { return filepath.Join(dir, name) }
	confined(t, landlock.New(in(dir, "w", "own", "w/protected/inner"), in(dir, "w/protected")), func() {
		for _, place := range []struct{ dir, from string }{{"own/dir", "own/from"}, {"w/free", "w/from"}} {
			for _, a := range attempts(at(place.dir), at(place.from)) {
				if err := a.do(); err != nil {
					t.Errorf("%s in %s: %v", a.name, place.dir, err)
				}
			}
		}
		for _, path := range []string{at("w/main.go"), at("w/protected/inner/file"), "/dev/null"} {
			if err := overwrite(path); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.ReadFile(at("outside/file")); err != nil {
			t.Errorf("reading is limited: %v", err)
		}
	})
}

// An empty list makes everything read-only. Listed files are writable, and nothing next to them.
func TestFilesAndNothing(t *testing.T) {
	landlocktest.Need(t)
	dir := tree(t, "a/file", "a/other")
	file, other := filepath.Join(dir, "a/file"), filepath.Join(dir, "a/other")
	confined(t, landlock.New([]string{}, nil), func() {
		if err := overwrite(file); !denied(err) {
			t.Errorf("nothing is writable: %v", err)
		}
	})
	confined(t, landlock.New(in(dir, "a/file", "-a/none"), nil), func() {
		if err := errors.Join(overwrite(file), os.Truncate(file, 0)); err != nil {
			t.Error(err)
		}
		for _, a := range []action{
			{"another file", func() error { return overwrite(other) }},
			{"replace", func() error { return os.Rename(other, file) }},
			{"remove", func() error { return os.Remove(file) }},
			{"create what may be missing", func() error { return create(filepath.Join(dir, "a/none")) }},
		} {
			if err := a.do(); !denied(err) {
				t.Errorf("%s: %v", a.name, err)
			}
		}
	})
}

// A hard link next to a protected file is that file.
func TestHardLinkNextToProtected(t *testing.T) {
	landlocktest.Need(t)
	dir := tree(t, "w/protected", "w/else")
	if err := os.Link(filepath.Join(dir, "w/protected"), filepath.Join(dir, "w/alias")); err != nil {
		t.Fatal(err)
	}
	confined(t, landlock.New(in(dir, "w"), in(dir, "w/protected")), func() {
		for _, name := range []string{"w/protected", "w/alias"} {
			if err := overwrite(filepath.Join(dir, name)); !denied(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := overwrite(filepath.Join(dir, "w/else")); err != nil {
			t.Error(err)
		}
	})
}

// The limits that the documentation states.
func TestNotLimited(t *testing.T) {
	landlocktest.Need(t)
	dir := tree(t, "outside/file", "w/")
	file := filepath.Join(dir, "outside/file")
	l, err := net.Listen("unix", filepath.Join(dir, "outside/sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	confined(t, landlock.New(in(dir, "w"), nil), func() {
		if err := os.Chmod(file, 0o600); err != nil {
			t.Errorf("permissions: %v", err)
		}
		if _, err := open.WriteString("by an open file"); err != nil {
			t.Errorf("an open file: %v", err)
		}
		if c, err := net.Dial("unix", l.Addr().String()); err != nil {
			t.Errorf("a socket: %v", err)
		} else {
			c.Close()
		}
	})
}

// Abstract sockets of processes outside cannot be reached, and these processes cannot be
// signalled.
func TestScopes(t *testing.T) {
	landlocktest.NeedABI(t, landlock.ScopesABI)
	l, err := net.Listen("unix", "@"+filepath.Base(t.TempDir())+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	confined(t, landlock.New([]string{}, nil), func() {
		if _, err := net.Dial("unix", l.Addr().String()); !errors.Is(err, syscall.EPERM) {
			t.Errorf("connecting: %v, expected %v", err, syscall.EPERM)
		}
		if err := syscall.Kill(os.Getppid(), 0); err != nil {
			t.Errorf("signalling without OwnSignals: %v", err)
		}
	})
	confined(t, landlock.New([]string{}, nil).WithOwnSignals(true), func() {
		if err := syscall.Kill(os.Getppid(), 0); !errors.Is(err, syscall.EPERM) {
			t.Errorf("signalling: %v, expected %v", err, syscall.EPERM)
		}
	})
}

// Too many entries next to a protected one are an error, not a part of the limits.
func TestTooManyEntries(t *testing.T) {
	landlocktest.Need(t)
	dir := tree(t, "w/protected")
	for i := range 4097 {
		if err := os.Symlink("x", filepath.Join(dir, "w", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	r, err := landlock.New(in(dir, "w"), in(dir, "w/protected")).Open()
	if err == nil {
		r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "more than 4096 entries next to read_only_paths") {
		t.Errorf("%v", err)
	}
}

// On a kernel without Landlock there are no limits, and so there is no Ruleset.
func TestKernelWithoutLandlock(t *testing.T) {
	landlocktest.Without(t, func() {
		r, err := landlock.New([]string{}, nil).Open()
		if !errors.Is(err, landlock.ErrUnsupported) || r != nil {
			t.Errorf("%v, %v", r, err)
		}
		if err := landlock.Supported(); !errors.Is(err, landlock.ErrUnsupported) {
			t.Error(err)
		}
		if r, err := landlock.New(nil, nil).Open(); r != nil || err != nil {
			t.Errorf("without limits: %v, %v", r, err)
		}
	})
}
