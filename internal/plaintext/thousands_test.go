package plaintext

import "testing"

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, expected := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Thousands(n); got != expected {
			t.Errorf("%d: %s, expected %s", n, got, expected)
		}
	}
}
