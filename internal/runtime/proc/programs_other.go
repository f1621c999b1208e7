//go:build !linux

package proc

import (
	"errors"
	"fmt"
)

// Programs needs /proc.
func Programs([]Identity) (map[Identity][]string, error) {
	return nil, fmt.Errorf("list the processes: %w", errors.ErrUnsupported)
}
