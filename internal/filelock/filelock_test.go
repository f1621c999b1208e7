package filelock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A wait for a lock ends with its context. A link in place of a lock file is refused.
func TestLockRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Try(path, Shared)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := Wait(ctx, path, Exclusive); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(path, path+"-link"); err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path+"-link", Shared); err == nil {
		t.Error("a link is locked")
	}
}

// A lock that was closed is held by the command that has its file; one that was released is not.
func TestCommandKeepsLock(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*Lock) error{"closed": (*Lock).Close, "released": (*Lock).Release} {
		path := filepath.Join(t.TempDir(), "lock")
		l, err := Try(path, Exclusive)
		if err != nil {
			t.Fatal(err)
		}
		in, hold, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("cat")
		cmd.Stdin, cmd.ExtraFiles = in, []*os.File{l.File()}
		if err := errors.Join(cmd.Start(), in.Close(), give(l)); err != nil {
			t.Fatal(err)
		}
		if other, err := Try(path, Shared); err != nil || (other == nil) != (name == "closed") {
			t.Errorf("%s: %v, %v", name, other, err)
		}
		if err := errors.Join(hold.Close(), cmd.Wait()); err != nil {
			t.Fatal(err)
		}
		if other, err := Try(path, Shared); err != nil || other == nil && name == "closed" {
			t.Errorf("%s: after the end of the command: %v, %v", name, other, err)
		}
	}
}
