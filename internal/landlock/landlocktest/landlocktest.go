// Package landlocktest has what tests of write limits share.
package landlocktest

import (
	"fmt"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/landlock"
)

// Need skips a test if the kernel cannot enforce write limits; in CI it fails.
func Need(t testing.TB) {
	t.Helper()
	NeedABI(t, landlock.MinABI)
}

// NeedABI is like Need, for a version of the interface of the kernel.
func NeedABI(t testing.TB, least int) {
	t.Helper()
	err := landlock.Supported()
	if abi, _ := landlock.ABI(); err == nil && abi < least {
		err = fmt.Errorf("Landlock has version %d of its interface, expected %d for this test", abi, least)
	}
	if err != nil {
		exectest.Missing(t, err)
	}
}
