//go:build !linux

package proc

import (
	"errors"
	"fmt"
)

// Rest is not implemented here; it returns errors.ErrUnsupported.
func Rest(leader Identity, _ []Identity) ([]Identity, error) {
	return nil, fmt.Errorf("what is left of process %d: %w", leader.PID, errors.ErrUnsupported)
}

func (p *Process) rest() ([]Identity, error) { return nil, errors.ErrUnsupported }
