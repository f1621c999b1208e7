//go:build !linux

package proc

import (
	"errors"
	"fmt"
)

// NoNewPrivileges needs Linux.
func NoNewPrivileges() error {
	return fmt.Errorf("%w: no_new_privileges needs Linux: %w", ErrCommand, errors.ErrUnsupported)
}
