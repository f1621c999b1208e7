//go:build !linux

package landlock

import (
	"errors"
	"runtime"
)

// ABI returns an error.
func ABI() (int, error) { return 0, errors.New("this is " + runtime.GOOS) }

// Ruleset is not supported.
type Ruleset struct{}

// Open returns nil for nil paths, otherwise an error that wraps ErrUnsupported.
func (p *Paths) Open() (*Ruleset, error) {
	if p == nil {
		return nil, nil
	}
	return nil, Supported()
}

// Close does nothing.
func (*Ruleset) Close() {}
