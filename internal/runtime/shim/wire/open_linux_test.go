package wire

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/private"
)

// A file of a slot is read only if it is a regular one: a link leads out of the slot,
// and who opens a fifo waits for its other end.
func TestSlotFileIsNoFile(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, place := range map[string]func(name string) error{
		"link":      func(name string) error { return os.Symlink(target, name) },
		"fifo":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(kind, func(t *testing.T) {
			for file, read := range map[string]func(dir string) error{
				StateFile: func(dir string) error { _, err := ReadState(dir); return err },
				ExitFile:  func(dir string) error { _, err := ReadRecord(dir); return err },
				LockFile:  func(dir string) error { _, err := Locked(dir); return err },
			} {
				dir := t.TempDir()
				if err := place(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				err := read(dir)
				if refused := new(private.Error); !errors.As(err, &refused) || refused.Path != filepath.Join(dir, file) {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}
