package toml

import (
	"errors"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1b": 1, "512MiB": 512 << 20, "512 mib": 512 << 20, " 512M ": 512 << 20, "512m": 512 << 20, "4k": 4096, "2Gi": 2 << 30, "1.5GiB": 3 << 29,
		"1TB": 1e12, "1kB": 1000, "1T": 1 << 40, ".5K": 512,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "K", "1.2.3M", "1e3M", "0x10M", "1P", "1Mb/s", "1 M B", "１M", "NaN", "-1M", "+1M", "1Kib2"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
	if _, err := parseSize("512"); !errors.Is(err, errNoUnit) {
		t.Errorf("512: got %v, want %v", err, errNoUnit)
	}
}

// FuzzParseSize checks that parseSize does not panic and never returns a negative size.
func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"512MiB", "1.5 GB", "", "99999999999999999999T", "-1k", "."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseSize(text); err == nil && n < 1 || err != nil && n != 0 {
			t.Errorf("%q: got %d, %v", text, n, err)
		}
	})
}
