package deadline

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that cannot be replaced, as on a full disk, changes its place with the reserve.
func TestReserve(t *testing.T) {
	t.Parallel()
	// The names of temporary files next to it are too long for the file system.
	path := filepath.Join(t.TempDir(), strings.Repeat("d", 247))
	if err := newWriter(t, path).Move(now(t).Add(time.Minute)); err == nil {
		t.Fatal("it can be replaced")
	}
	for _, name := range []string{path, path + ".reserve"} {
		must(t, os.WriteFile(name, bytes.Repeat([]byte(" "), fileSize), 0o600))
	}
	w := newWriter(t, path) // also after a start
	for i := range 3 {
		until := now(t).Add(time.Duration(i+1) * time.Minute)
		must(t, w.Move(until))
		if d, err := Load(path); err != nil || d.until != until {
			t.Errorf("moved to %d: %d, %v", until, d.until, err)
		}
	}
	must(t, w.Leave("a"))
	if d, err := Load(path); err != nil || d.left != "a" {
		t.Errorf("after the node has left: %+v, %v", d, err)
	}
	must(t, os.Chmod(path+".reserve", 0o644))
	if err := newWriter(t, path).Lift(); err == nil {
		t.Error("a reserve that others can write was used")
	}
	must(t, os.Chmod(path+".reserve", 0o600))
	must(t, os.Truncate(path+".reserve", 1))
	if err := newWriter(t, path).Lift(); err == nil {
		t.Error("a reserve without room was used")
	}
}
