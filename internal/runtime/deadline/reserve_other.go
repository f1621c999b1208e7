//go:build !linux

package deadline

import "errors"

// exchange is not supported.
func exchange(string, string) error { return errors.ErrUnsupported }
