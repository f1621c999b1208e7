//go:build !linux

package proc

import (
	"context"
	"errors"
)

// Sweeper is not implemented here.
type Sweeper struct{}

// Sweep returns errors.ErrUnsupported.
func (*Sweeper) Sweep(context.Context, string) error { return errors.ErrUnsupported }
