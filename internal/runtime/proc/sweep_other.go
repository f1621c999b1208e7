//go:build !linux

package proc

import (
	"context"
	"errors"
)

// Sweeper is not implemented here.
type Sweeper struct{}

// SweepUnused returns errors.ErrUnsupported.
func (*Sweeper) SweepUnused(context.Context, string) error { return errors.ErrUnsupported }

// Sweep returns errors.ErrUnsupported.
func (*Sweeper) Sweep(context.Context, string) error { return errors.ErrUnsupported }
