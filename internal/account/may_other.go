//go:build !linux

package account

import (
	"errors"
	"runtime"
)

func hasACL(string) bool { return false }

// May returns an error: only Linux supports agents of other users.
func May() error { return errors.New("that needs Linux, and this is " + runtime.GOOS) }
