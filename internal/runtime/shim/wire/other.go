//go:build !linux

package wire

import (
	"errors"
	"net"
	"os"
)

func exchange(a, b string) error { return errors.ErrUnsupported }

// TryLock is not implemented here; it returns errors.ErrUnsupported.
func TryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Locked is not implemented here; it returns errors.ErrUnsupported.
func Locked(string) (bool, error) { return false, errors.ErrUnsupported }

// CheckPeer cannot tell here, and so refuses.
func CheckPeer(*net.UnixConn) error { return errors.ErrUnsupported }
