package aidefile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseTokens parses a number of tokens: "200k", "1m", "1.5m", "500000". The
// suffixes are thousands and millions, in either case.
func ParseTokens(text string) (int64, error) {
	number, unit := strings.ToLower(strings.TrimSpace(text)), int64(1)
	switch {
	case strings.HasSuffix(number, "k"):
		number, unit = number[:len(number)-1], 1000
	case strings.HasSuffix(number, "m"):
		number, unit = number[:len(number)-1], 1_000_000
	}
	whole, fraction, fractional := strings.Cut(number, ".")
	n, err := parseDigits(whole)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%.40q is not a number of tokens", text)
	}
	n *= unit
	if !fractional {
		return n, nil
	}
	f, err := parseDigits(fraction)
	scale := int64(1)
	for range fraction {
		scale *= 10
		if scale > unit {
			return 0, fmt.Errorf("%.40q is not a whole number of tokens", text)
		}
	}
	if err != nil || n > math.MaxInt64-unit {
		return 0, fmt.Errorf("%.40q is not a number of tokens", text)
	}
	return n + f*(unit/scale), nil
}

func parseDigits(text string) (int64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(text, 10, 64)
}
