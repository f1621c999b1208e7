//go:build !linux

package shim

import (
	"context"
	"errors"
)

// sweeper finds nothing here.
type sweeper struct{}

func (*sweeper) sweep(context.Context, string) error { return errors.ErrUnsupported }
