//go:build !linux

package cgroup

import (
	"context"
	"errors"
	"os"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Tree is not supported.
type Tree struct{}

// Find returns ErrUnavailable.
func Find(int) (*Tree, error) { return nil, ErrUnavailable }

// Enable does nothing.
func (*Tree) Enable() {}

// Predict does nothing.
func (*Tree) Predict() {}

// Dir returns "".
func (*Tree) Dir() string { return "" }

// CPU reports false.
func (*Tree) CPU() bool { return false }

// Missing returns "".
func (*Tree) Missing() string { return "" }

// Clean does nothing.
func (*Tree) Clean(string, func(string) bool) {}

// Group returns ErrUnavailable.
func (*Tree) Group(string) (*Group, error) { return nil, ErrUnavailable }

// Group is not supported.
type Group struct{}

// At returns ErrUnavailable.
func At(string) (*Group, error) { return nil, ErrUnavailable }

// Dir returns "".
func (*Group) Dir() string { return "" }

// Prepare returns ErrUnavailable.
func (*Group) Prepare(runtime.Limits) (runtime.Limits, error) {
	return runtime.Limits{}, ErrUnavailable
}

// Open returns errors.ErrUnsupported.
func (*Group) Open() (*os.File, error) { return nil, errors.ErrUnsupported }

// Kill does nothing.
func (*Group) Kill(context.Context) error { return nil }

// Remove does nothing.
func (*Group) Remove() error { return nil }

// OutOfMemory returns 0.
func (*Group) OutOfMemory() uint64 { return 0 }
