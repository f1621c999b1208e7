package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestFrontFile(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "",
		"ps -f d":                  "ps -f d",
		"-f d ps -f e":             "--file=d ps -f e",
		"-fd logs -f web":          "--file=d logs -f web",
		"-f=d logs web":            "--file=d logs web",
		"--file d events -f":       "--file=d events -f",
		"--file=d events -f":       "--file=d events -f",
		"--help -f d fire a -- -f": "--help --file=d fire a -- -f",
		"-f":                       "-f",
	} {
		if got := frontFile(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
