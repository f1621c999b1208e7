//go:build !linux

package proc

import (
	"errors"
	"fmt"
)

// Programs is not implemented here.
func Programs([]Identity) (map[Identity][]string, error) {
	return nil, fmt.Errorf("list the processes: %w", errors.ErrUnsupported)
}
