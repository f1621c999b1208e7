package server

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Files are restored while slots come: when a client wakes a shim during the starts of another one.
func TestSlotsComeWhileFilesAreRestored(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	p, err := newShim(dir, "app")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.socket.listen(); err != nil {
		t.Fatal(err)
	}
	defer p.socket.close()
	var restoring sync.WaitGroup
	const most = 300
	for i := range most {
		name := fmt.Sprint("slot", i)
		if err := wire.MakeDir(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		lock, err := wire.TryLock(filepath.Join(dir, name))
		if err != nil || lock == nil {
			t.Fatal(lock, err)
		}
		restoring.Go(func() {
			s := p.slot(name)
			for s == nil {
				s = p.slot(name)
			}
			s.restoreFiles()
		})
		if err := p.take(name, most, lock); err != nil {
			t.Fatal(err)
		}
	}
	restoring.Wait()
	for _, s := range p.all() {
		if err := s.quit(); err != nil {
			t.Error(err)
		}
	}
	<-p.done
}

// A slot gets the socket of the shim that serves it, whatever was there before.
func TestLinkOfSlot(t *testing.T) {
	s := slotFor(t, "app/a")
	name := filepath.Join(s.dir, wire.SocketFile)
	for what, create := range map[string]func() error{
		"nothing":                        func() error { return nil },
		"the link of the last shim":      func() error { return os.Symlink("../shim-1", name) },
		"the socket of a shim of before": func() error { return os.WriteFile(name, nil, 0o600) },
	} {
		os.Remove(name)
		if err := create(); err != nil {
			t.Fatal(err)
		}
		if err := s.link(); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
		if got, err := os.Readlink(name); err != nil || got != "../"+s.shim.socket.name {
			t.Errorf("after %s: a link to %q, %v", what, got, err)
		}
	}
}
