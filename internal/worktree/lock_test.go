package worktree

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// The lock of an attempt has one holder at a time, although its file is removed each time.
func TestLockIsExclusive(t *testing.T) {
	t.Parallel()
	d := &directory{root: t.TempDir()}
	var group sync.WaitGroup
	var holders atomic.Int32
	for range 8 {
		group.Go(func() {
			for range 20 {
				l, err := d.lock(t.Context(), "t-1")
				if err != nil {
					t.Error(err)
					return
				}
				holders.Add(1)
				for range 20 { // long enough for another one
					if _, err := os.ReadDir(d.root); err != nil {
						t.Error(err)
					}
				}
				if n := holders.Load(); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				holders.Add(-1)
				if err := d.unlock("t-1", l); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if entries, err := os.ReadDir(d.root); len(entries) != 0 || err != nil {
		t.Errorf("left: %v, %v", entries, err)
	}
}
