//go:build !linux

package proc

import (
	"context"
	"errors"
	"os"
)

// Detached is a process that is to outlive this program.
type Detached struct{ Identity }

// Release has nothing to do here.
func (d *Detached) Release() {}

// Done is closed when it has ended, or was released.
func (d *Detached) Done() <-chan struct{} { return nil }

// Detach is not implemented here; it returns errors.ErrUnsupported.
func Detach(string, []string, []string, string, []*os.File) (*Detached, error) {
	return nil, errors.ErrUnsupported
}

// AwaitDeath is not implemented here; it returns errors.ErrUnsupported.
func (id Identity) AwaitDeath(context.Context) error { return errors.ErrUnsupported }
