//go:build !linux

package account

import (
	"errors"
	"runtime"
)

func hasACL(string) bool { return false }

// May returns why this process may not run agents as other users.
func May() error { return errors.New("that needs Linux, and this is " + runtime.GOOS) }
