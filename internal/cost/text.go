package cost

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// TokensText returns a sum of tokens as text; nil is unknown. The tokens of some calls are not in the sum. If calls is
// not 0, the text says how many of the calls these are.
func TokensText(sum *int64, unknown, calls int64) string {
	if sum == nil {
		return "unknown"
	}
	return atLeast(plaintext.Thousands(*sum), unknown, calls)
}

// DollarsText returns a sum of dollars as text, in the way of TokensText.
func DollarsText(sum *float64, unknown, calls int64) string {
	if sum == nil {
		return "unknown"
	}
	return atLeast(fmt.Sprintf("%.2f", *sum), unknown, calls)
}

// atLeast returns a sum that misses what some of the calls have used.
func atLeast(sum string, unknown, calls int64) string {
	switch {
	case unknown == 0:
		return sum
	case calls == 0:
		return ">= " + sum
	}
	return fmt.Sprintf(">= %s (%s of %s unknown)", sum, plaintext.Thousands(unknown), plaintext.Thousands(calls))
}
