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

// SendFiles returns errors.ErrUnsupported.
func SendFiles(*net.UnixConn, []byte, []*os.File) error { return errors.ErrUnsupported }

// ShimIn reports false, since nothing is known of a process.
func ShimIn(int) (id proc.Identity, slots string, ok bool) { return id, "", false }

// IsShim reports false.
func IsShim(string, proc.Identity) bool { return false }

// AgentOf returns "".
func AgentOf(string, proc.Identity, proc.Mark) string { return "" }
