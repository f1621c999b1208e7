package wire

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/private"
)

// A file of a slot is opened only if it is a regular file: a link leads out of the slot,
// and opening a FIFO waits for its other end.
func TestSlotFileIsNoFile(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, place := range map[string]func(name string) error{
		"link":      func(name string) error { return os.Symlink(target, name) },
		"dead link": func(name string) error { return os.Symlink(target+"-missing", name) },
		"fifo":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(kind, func(t *testing.T) {
			for _, c := range []struct {
				name, file string
				open       func(dir string) error
			}{
				{"ReadState", LockFile, func(dir string) error { _, err := ReadState(dir); return err }},
				{"ReadRecord", ExitFile, func(dir string) error { _, err := ReadRecord(dir); return err }},
				{"Locked", LockFile, func(dir string) error { _, err := Locked(dir); return err }},
				{"TryLock", LockFile, func(dir string) error { _, err := TryLock(dir); return err }},
			} {
				dir := t.TempDir()
				if err := place(filepath.Join(dir, c.file)); err != nil {
					t.Fatal(err)
				}
				err := c.open(dir)
				if refused := new(private.Error); !errors.As(err, &refused) || refused.Path != filepath.Join(dir, c.file) {
					t.Errorf("%s with a %s as %s: %v", c.name, kind, c.file, err)
				}
			}
		})
	}
}
