//go:build !linux

package proc

import (
	"errors"
	"fmt"
)

// LineageOf is known on Linux alone.
func LineageOf(pid int) (Lineage, error) {
	return Lineage{}, fmt.Errorf("parents of process %d: %w", pid, errors.ErrUnsupported)
}

// EnvironmentOf is known on Linux alone.
func EnvironmentOf(int) map[string]string { return nil }
