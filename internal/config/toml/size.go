package toml

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

const sizeType = `a size such as "512MiB" or a number of bytes`

// Size returns the read function of a key whose value is a size of at least least bytes.
// Errors show that minimum as shown.
func Size[T any](least int64, shown string, field func(*T) *int64) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		switch n, ok := r.Size(v); {
		case ok && n < least:
			r.Fail(v, "", "%s is %s, expected at least %s", r.Label(v), v.Text, shown)
		case ok:
			*field(into) = n
		}
	}
}

// Size reads a number of bytes above zero.
func (r *Reader) Size(v *Value) (int64, bool) {
	if v.Kind == KindInteger {
		return r.Integer(v, 1, math.MaxInt64, sizeType)
	}
	if !r.Want(v, KindString, sizeType) {
		return 0, false
	}
	n, err := parseSize(v.Text)
	if err != nil {
		hint := "the units are K, M, G, T, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB, GB, TB (of 1000)"
		if errors.Is(err, errNoUnit) {
			hint = "write " + spec.Quote(strings.TrimSpace(v.Text)+"MiB") + " if mebibytes are meant"
		}
		r.Fail(v, hint, "%s is %s, %v, expected %s", r.Label(v), spec.Quote(v.Text), err, sizeType)
		return 0, false
	}
	return n, true
}

var (
	errNoUnit = errors.New("a number without a unit")
	errNoSize = errors.New("not a size")
)

// parseSize parses a size with a unit, in upper or lower case. K, M, G and T are powers of
// 1024, as in systemd and Docker, and so are KiB and Ki; KB is 1000 bytes.
func parseSize(text string) (int64, error) {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, unit := text[:end], strings.ToLower(strings.TrimSpace(text[end:]))
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, errNoSize
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, errNoSize
	}
	factor := 1.0
	switch base, power := 1024.0, strings.Index("kmgt", unit[:min(1, len(unit))])+1; {
	case unit == "":
		return 0, errNoUnit
	case unit == "b":
	case power == 0:
		return 0, errNoSize
	default:
		switch unit[1:] {
		case "", "i", "ib":
		case "b":
			base = 1000
		default:
			return 0, errNoSize
		}
		factor = math.Pow(base, float64(power))
	}
	switch bytes := n * factor; {
	case bytes >= math.MaxInt64:
		return 0, errors.New("more than there can be")
	case bytes < 1:
		return 0, errors.New("less than a byte")
	default:
		return int64(bytes), nil
	}
}
