//go:build !linux

package wire

import (
	"errors"
	"os"
)

// TryLock is not implemented here; it returns errors.ErrUnsupported.
func TryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Locked is not implemented here; it returns errors.ErrUnsupported.
func Locked(string) (bool, error) { return false, errors.ErrUnsupported }
