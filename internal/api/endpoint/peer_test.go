package endpoint

import (
	"os"
	"testing"
)

// A client does not connect to a socket of another user.
func TestOthersSocket(t *testing.T) {
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, os.Geteuid() + 1: false, 65534: false} {
		if got := Trusted(uid); got != want {
			t.Errorf("user %d: %v", uid, got)
		}
	}
}
