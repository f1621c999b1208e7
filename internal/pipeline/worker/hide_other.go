//go:build !linux

package worker

import "errors"

// hideEnviron returns errors.ErrUnsupported.
func hideEnviron() error { return errors.ErrUnsupported }
