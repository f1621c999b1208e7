package logfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
)

// foreign creates files of different kinds at a name, none of them regular.
func foreign(t *testing.T, f func(t *testing.T, put func(name string))) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, place := range map[string]func(name string) error{
		"link":          func(name string) error { return os.Symlink(target, name) },
		"dangling link": func(name string) error { return os.Symlink(target+".not", name) },
		"fifo":          func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"directory":     func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(kind, func(t *testing.T) {
			f(t, func(name string) {
				os.Remove(name)
				if err := place(name); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// Only regular files are read: a link leads out of the slot, and opening a FIFO waits for its
// other end.
func TestLogIsNoFile(t *testing.T) {
	foreign(t, func(t *testing.T, put func(string)) {
		file := filepath.Join(t.TempDir(), "output.log")
		put(file)
		tail := func(tail *Tail, err error) error { return err }
		_, err := Peek(file, 5)
		for name, err := range map[string]error{
			"Peek": err, "Last": tail(Last(file, 5)), "all": tail(Last(file, -1)),
			"Since": tail(Since(file, time.Now())), "From": tail(From(file, Mark{})),
		} {
			if refused := new(private.Error); !errors.As(err, &refused) || refused.Path != file {
				t.Errorf("%s: %v", name, err)
			}
		}
		if m := End(file); m.Inode != 0 || m.Offset != 0 || m.Before != nil {
			t.Errorf("the end is %+v", m)
		}
		if text := NewWriter(file).Tail(100); text != nil {
			t.Errorf("its end is %q", text)
		}
	})
}

// If something else replaces a log while it is read, the reading ends.
func TestLogIsReplaced(t *testing.T) {
	foreign(t, func(t *testing.T, put func(string)) {
		file := filepath.Join(t.TempDir(), "output.log")
		w := NewWriter(file)
		w.Append([]byte("one\n"))
		tail, err := From(file, Mark{})
		if err != nil {
			t.Fatal(err)
		}
		defer tail.Close()
		put(file)
		w.Begin(2) // the existing file is examined
		var got []string
		for range 3 {
			if err := tail.Next(Texts(func(l string) { got = append(got, l) })); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, []string{"one"}) {
			t.Errorf("read %q", got)
		}
	})
}

// Without a readable index there are no times, and nothing else is lost.
func TestIndexIsNoFile(t *testing.T) {
	foreign(t, func(t *testing.T, put func(string)) {
		file := filepath.Join(t.TempDir(), "output.log")
		w := NewWriter(file)
		w.Append([]byte("one\n"))
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		put(indexFile(file, inode(st)))
		if got := read(t, file, Mark{}); !slices.Equal(got, []string{"one"}) {
			t.Errorf("read %q", got)
		}
	})
}

// A missing rotated file ends the list of kept files.
func TestKeptIsNoFile(t *testing.T) {
	foreign(t, func(t *testing.T, put func(string)) {
		file := filepath.Join(t.TempDir(), "output.log")
		NewWriter(file).Append([]byte("one\n"))
		put(file + ".1")
		if got, err := Peek(file, 5); err != nil || !slices.Equal(got, []string{"one"}) {
			t.Errorf("read %q, %v", got, err)
		}
		if got := read(t, file, Mark{}); !slices.Equal(got, []string{"one"}) {
			t.Errorf("read %q", got)
		}
	})
}
