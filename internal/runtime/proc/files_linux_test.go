package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// Files and directories of any size are read completely.
func TestReadProc(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 1<<10 - 1, 1 << 10, 1<<10 + 1, 100_000} {
		file := filepath.Join(dir, "file")
		want := bytes.Repeat([]byte("0123456789"), size)[:size]
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readProc(file, make([]byte, 1<<10)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v; want %d bytes", len(got), err, size)
		}
	}
	var buf [1 << 10]byte
	if n := testing.AllocsPerRun(10, func() { readProc("/proc/self/stat", buf[:]) }); n > 1 { // that of its name
		t.Errorf("%v allocations for a file that fits", n)
	}
	var want []int
	for n := range 300 {
		want = append(want, n)
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readNumbers(dir)
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want the numbers below 300", got, err)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := readProc(missing, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := readNumbers(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestSocketsOf(t *testing.T) {
	r, w, err := os.Pipe() // no socket
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	before := slices.Collect(SocketsOf(os.Getpid()))
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	after := slices.Collect(SocketsOf(os.Getpid()))
	for _, fd := range fds {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(before, st.Ino) || !slices.Contains(after, st.Ino) {
			t.Errorf("socket %d: before %d, after %d", st.Ino, before, after)
		}
		syscall.Close(fd)
	}
	if got := slices.Collect(SocketsOf(-1)); len(got) > 0 {
		t.Errorf("without a process: %d", got)
	}
}
