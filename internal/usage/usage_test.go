package usage

import (
	"testing"
)

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0K", 1 << 20: "1.0M", 5 << 10: "5K", 1000 << 10: "1.0M", 34 << 20: "34M", 3 << 30: "3.0G", 5 << 40: "5.0T", 1<<64 - 1: "16777216.0T"} {
		if got := (Resources{Memory: n}).Bytes(); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
