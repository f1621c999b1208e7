package load

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A grove.toml that is a FIFO is rejected: the daemon must not wait for a writer.
func TestGroveIsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "grove.toml")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, _, err := Tree(file)
		loaded <- err
	}()
	select {
	case err := <-loaded:
		if err == nil {
			t.Error("a program is loaded from a FIFO")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the daemon waits for a FIFO")
	}
}
