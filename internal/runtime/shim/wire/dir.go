package wire

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/private"
)

// WakeSignal tells a shim to look whether its files are still there. It is one
// that does nothing to a program which does not wait for it: a shim that is
// just being started does not yet.
const WakeSignal = unix.SIGWINCH

// MakeDir makes the directory of a slot, which must be this user's own.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	if err := private.Dir(dir); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	return nil
}
