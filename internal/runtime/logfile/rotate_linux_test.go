package logfile

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// A rotation renames onto no file, because ext4 would write the renamed file to the disk at once.
func TestRotatesWithoutReplacing(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_DELETE|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(filepath.Join(dir, Name))
	w.Limit(runtime.Log{MaxSize: 4, Keep: 2})
	for range 4 { // the last one needs the place of the oldest file
		w.Append([]byte("line\n"))
	}
	buf := make([]byte, 8<<10)
	n, err := unix.Read(fd, buf)
	if err != nil {
		t.Fatal(err)
	}
	present := make(map[string]bool) // rotated files
	var removed []string
	for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
		mask, size := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
		name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:][:size], "\x00"))
		b = b[unix.SizeofInotifyEvent+size:]
		switch {
		case mask&unix.IN_DELETE != 0 && present[name]:
			removed = append(removed, name)
			delete(present, name)
		case mask&unix.IN_MOVED_TO != 0:
			if present[name] {
				t.Errorf("%s was replaced by a rename", name)
			}
			present[name] = true
			delete(present, source(name))
		}
	}
	if want := []string{Name + ".2"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
}

// source returns the name that a rotated file had before its last rotation.
func source(name string) string {
	if name == Name+".1" {
		return Name
	}
	return Name + ".1"
}
