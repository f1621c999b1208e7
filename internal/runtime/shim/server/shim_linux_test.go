package server

import (
	"fmt"
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
