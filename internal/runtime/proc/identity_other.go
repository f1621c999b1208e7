//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"syscall"
)

// Identify is not implemented here; it returns errors.ErrUnsupported.
func Identify(pid int) (Identity, error) {
	return Identity{}, fmt.Errorf("identify process %d: %w", pid, errors.ErrUnsupported)
}

// Observe cannot tell here.
func Observe(Identity) Observation { return Unknown }

// Ended cannot tell here.
func (id Identity) Ended() bool { return false }

// Signal is not implemented here; it returns errors.ErrUnsupported.
func (id Identity) Signal(syscall.Signal) error {
	return fmt.Errorf("signal process %d: %w", id.PID, errors.ErrUnsupported)
}

func descendants(pid int) ([]member, error) {
	return nil, fmt.Errorf("descendants of process %d: %w", pid, errors.ErrUnsupported)
}

// PIDs is not implemented here; it returns errors.ErrUnsupported.
func PIDs() ([]int, error) { return nil, fmt.Errorf("list processes: %w", errors.ErrUnsupported) }

// Kin finds no process here.
func Kin(Identity) []Identity { return nil }
