package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// A log that was removed, with or without its directory, is created again.
func TestRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "slot")
		file := filepath.Join(dir, "output.log")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		w := NewWriter(file)
		w.Append([]byte("first\n"))
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * checkInterval)
		w.Append([]byte("second\n"))
		if b, err := os.ReadFile(file); string(b) != "second\n" {
			t.Errorf("after the file was removed: %q, %v", b, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * checkInterval)
		w.Append([]byte("nowhere\n")) // to the file that cannot be read
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * checkInterval)
		w.Append([]byte("third\n"))
		if b, err := os.ReadFile(file); !strings.HasSuffix(string(b), "third\n") {
			t.Errorf("after the directory was removed: %q, %v", b, err)
		}
	})
}

// The text of one write is rotated between its lines, however long it is.
func TestRotatesWithinAWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output.log")
	w := NewWriter(file)
	w.Limit(runtime.Log{MaxSize: 20, Keep: 3})
	w.Append([]byte("1 one\n"))
	w.Append([]byte("2 two\n3 three\n4 four\n" + strings.Repeat("5", 30) + "\n6 six\n"))
	w.Append([]byte("7 no end"))
	for name, want := range map[string]string{
		".3": "1 one\n2 two\n3 three\n", ".2": "4 four\n", ".1": strings.Repeat("5", 30) + "\n", "": "6 six\n7 no end",
	} {
		if b, err := os.ReadFile(file + name); err != nil || string(b) != want {
			t.Errorf("output.log%s: %q, %v, want %q", name, b, err, want)
		}
	}
}

// A log that cannot be rotated continues in the same file.
func TestCannotBeRotated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output.log")
	w := NewWriter(file)
	w.Limit(runtime.Log{MaxSize: 5, Keep: 1})
	if err := os.MkdirAll(filepath.Join(file+".1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.Append([]byte("one\ntwo\nthree\n"))
	if b, err := os.ReadFile(file); err != nil || string(b) != "one\ntwo\nthree\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// Recent returns what the incarnation that writes has written, and nothing of the one before.
func TestRecent(t *testing.T) {
	l := NewWriter(filepath.Join(t.TempDir(), "output.log"))
	l.Limit(runtime.Log{MaxSize: 100, Keep: 2})
	expect := func(n int, want string) {
		t.Helper()
		if got := l.Recent(n); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	expect(100, "")
	l.Begin(1)
	expect(100, "")
	l.Append([]byte("first\nunfinished"))
	expect(100, "first\nunfinished")
	expect(4, "shed")
	l.End(1, "exit code 0", false)
	l.Begin(2)
	expect(100, "")
	l.Append([]byte("\x1b[2Jsecond"))
	expect(100, "\x1b[2Jsecond")
	l.Append([]byte("\n" + strings.Repeat("x", 99) + "\nlast"))
	if got := string(l.Recent(1000)); !strings.HasSuffix(got, "last") || strings.Contains(got, "first") {
		t.Errorf("%q", got)
	}
}
