package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A log that was removed, with its directory or without, is begun anew.
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
		time.Sleep(2 * settleTime)
		w.Append([]byte("second\n"))
		if b, err := os.ReadFile(file); string(b) != "second\n" {
			t.Errorf("after the file was removed: %q, %v", b, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * settleTime)
		w.Append([]byte("nowhere\n")) // to the file that nobody can read any more
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * settleTime)
		w.Append([]byte("third\n"))
		if b, err := os.ReadFile(file); !strings.HasSuffix(string(b), "third\n") {
			t.Errorf("after the directory was removed: %q, %v", b, err)
		}
	})
}
