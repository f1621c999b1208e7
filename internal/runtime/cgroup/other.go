//go:build !linux

package cgroup

import (
	"context"
	"errors"
	"os"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Tree does not exist here.
type Tree struct{}

// Find returns ErrUnavailable.
func Find(int) (*Tree, error) { return nil, ErrUnavailable }

// Enable does nothing.
func (*Tree) Enable() {}

// Foresee does nothing.
func (*Tree) Foresee() {}

// Dir is "".
func (*Tree) Dir() string { return "" }

// CPU is false.
func (*Tree) CPU() bool { return false }

// Missing is "".
func (*Tree) Missing() string { return "" }

// Clean does nothing.
func (*Tree) Clean(string, func(string) bool) {}

// Group returns ErrUnavailable.
func (*Tree) Group(string) (*Group, error) { return nil, ErrUnavailable }

// Group does not exist here.
type Group struct{}

// At returns ErrUnavailable.
func At(string) (*Group, error) { return nil, ErrUnavailable }

// Dir is "".
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

// OutOfMemory is 0.
func (*Group) OutOfMemory() uint64 { return 0 }
