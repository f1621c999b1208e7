package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
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

// A wait for a lock ends with its context. A link in place of a lock file is refused.
func TestLockRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := tryLock(path, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := waitLock(ctx, path, unix.LOCK_EX); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if err := l.release(); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(path, path+"-link"); err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path+"-link", unix.LOCK_SH); err == nil {
		t.Error("a link is locked")
	}
}
