//go:build !linux

package wire

import (
	"errors"
	"net"
	"os"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func exchange(a, b string) error { return errors.ErrUnsupported }

// TryLock returns errors.ErrUnsupported.
func TryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Locked returns errors.ErrUnsupported.
func Locked(string) (bool, error) { return false, errors.ErrUnsupported }

// CheckPeer returns errors.ErrUnsupported, since the peer is unknown.
func CheckPeer(*net.UnixConn) error { return errors.ErrUnsupported }

// CheckClient returns errors.ErrUnsupported, since the client is unknown.
func CheckClient(*net.UnixConn, string) error { return errors.ErrUnsupported }

// ShimAt returns "", since nothing is known of a process.
func ShimAt(string, proc.Identity) string { return "" }
