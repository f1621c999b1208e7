package pool

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// parseAnswer reads what a check has printed: one integer, with white space
// around it. One that is out of range is the nearest that is not.
func parseAnswer(stdout []byte) (int, error) {
	text := string(bytes.TrimSpace(stdout))
	if text == "" {
		return 0, errors.New("it has printed nothing, expected an integer")
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "+"), "-")
	n, err := strconv.ParseInt(text, 10, 64)
	// What is out of range is not always read to its end.
	if err != nil && !errors.Is(err, strconv.ErrRange) || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("it has printed %s, expected an integer", spec.Quote(text))
	}
	return int(min(max(n, math.MinInt32), math.MaxInt32)), nil
}
