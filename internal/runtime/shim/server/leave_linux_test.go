package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// bound fails the test if f takes longer than any load explains.
func bound(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s takes too long", what)
	}
}

// A slot whose directory is removed again while its files are created again does not block the shim.
func TestFilesThatVanishRepeatedly(t *testing.T) {
	s := slotFor(t, "app/a")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				os.RemoveAll(s.dir)
			}
		}
	}()
	bound(t, "restoring the files", func() {
		for range 2000 {
			s.restoreFiles()
		}
	})
	close(stop)
	<-stopped
	s.restoreFiles()
	if !wire.SameFile(s.lock, filepath.Join(s.dir, wire.LockFile)) {
		t.Error("in the end its files are missing")
	}
}

// A client that gets the lock of a slot that a shim leaves may give it back to that shim immediately.
func TestSlotIsLeftBeforeItsLockIsFree(t *testing.T) {
	p := emptyShim(t, "a", "b")
	lockOf := func(name string) *os.File {
		for {
			lock, err := wire.TryLock(filepath.Join(p.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if lock != nil {
				return lock
			}
		}
	}
	for _, name := range []string{"b", "a"} {
		if err := p.take(name, 2, lockOf(name)); err != nil {
			t.Fatal(err)
		}
	}
	bound(t, "leaving and taking a slot", func() {
		for range 300 {
			s := p.slot("a")
			s.mu.Lock()
			s.linger.Stop()
			s.close()
			s.mu.Unlock()
			if err := p.take("a", 2, lockOf("a")); err != nil {
				t.Error(err)
				return
			}
		}
	})
}
