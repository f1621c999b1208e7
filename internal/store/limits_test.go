package store

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestSequenceKey(t *testing.T) {
	numbers := []uint64{0, 1, 9, 10, 1 << 40, math.MaxUint64}
	var keys []string
	for _, n := range numbers {
		key := SequenceKey("a/log", n)
		keys = append(keys, key)
		if got, ok := ParseSequenceKey("a/log", key); !ok || got != n {
			t.Errorf("%s is %d, %v; want %d", key, got, ok, n)
		}
	}
	if !slices.IsSorted(keys) {
		t.Errorf("keys do not sort like numbers: %v", keys)
	}
	for _, key := range []string{"", "a/log", "a/log/", "a/log/1", "a/logs/00000000000000000001", "a/log/+0000000000000000001",
		"a/log/0000000000000000000x", "a/log/99999999999999999999", "a/log/00000000000000000001/x"} {
		if n, ok := ParseSequenceKey("a/log", key); ok {
			t.Errorf("%q is taken for number %d", key, n)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("a/b", "a")
	f.Add("//", "\x00")
	f.Fuzz(func(t *testing.T, key, prefix string) {
		err := CheckKey(key)
		if err != nil && (!errors.Is(err, ErrInvalid) || strings.ContainsAny(err.Error(), "\n\x1b\x00")) {
			t.Errorf("%q: %v", key, err)
		}
		if err == nil && (key != strings.Trim(key, "/") || !Under(key, key) || !Under("", key) || !Under(strings.Split(key, "/")[0], key)) {
			t.Errorf("%q", key)
		}
		if n, ok := ParseSequenceKey(prefix, key); ok && SequenceKey(prefix, n) != key {
			t.Errorf("%q under %q is %d", key, prefix, n)
		}
	})
}
