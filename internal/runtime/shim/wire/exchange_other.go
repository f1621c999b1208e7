//go:build !linux

package wire

import "errors"

func exchange(a, b string) error { return errors.ErrUnsupported }
