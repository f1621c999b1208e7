//go:build !linux

package wire

import (
	"errors"
	"net"
	"os"
)

func exchange(a, b string) error { return errors.ErrUnsupported }

// TryLock returns errors.ErrUnsupported.
func TryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Locked returns errors.ErrUnsupported.
func Locked(string) (bool, error) { return false, errors.ErrUnsupported }

// CheckPeer returns errors.ErrUnsupported, since the peer is unknown.
func CheckPeer(*net.UnixConn) error { return errors.ErrUnsupported }
