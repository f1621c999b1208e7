package exectest

import (
	"os"
	"testing"
)

// GatedStdin returns a standard input that makes a script wait (read x) until the test calls release or
// ends.
func GatedStdin(t testing.TB) (stdin *os.File, release func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, func() { w.Close() }
}
