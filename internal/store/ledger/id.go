package ledger

import (
	"fmt"
	"strconv"
	"strings"
)

// ID returns the number of a record as people and agents see it: after a prefix that names the
// kind of record, such as "m-7".
func ID(prefix string, n uint64) string { return prefix + strconv.FormatUint(n, 10) }

// ParseID parses an ID as people and agents write it: m-7, M-7 or 7.
func ParseID(prefix, text string) (uint64, error) {
	digits := text
	if len(text) > len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		digits = text[len(prefix):]
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || digits[0] == '+' {
		return 0, fmt.Errorf("%.40q is no id, expected one such as %s", text, ID(prefix, 7))
	}
	return n, nil
}
