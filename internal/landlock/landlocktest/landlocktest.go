// Package landlocktest has what tests of write limits share.
package landlocktest

import (
	"os"
	"testing"

	"github.com/coppice-dev/coppice/internal/landlock"
)

// Need skips a test if the kernel cannot enforce write limits; in CI it fails.
func Need(t testing.TB) {
	t.Helper()
	if err := landlock.Supported(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
