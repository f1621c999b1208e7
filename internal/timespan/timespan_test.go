package timespan

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7d": 7 * Day, "1d12h": 36 * time.Hour, "12h1d": 36 * time.Hour, "0.5d": 12 * time.Hour, "1.5d1.5h": 37*time.Hour + 30*time.Minute,
		"-1d": -Day, "-1d12h": -36 * time.Hour, "+2d": 2 * Day, "0d": 0, ".5d": 12 * time.Hour, "1.d": Day, "1d1d": 2 * Day,
		"1d1ns": Day + 1, "10s": 10 * time.Second, "0": 0, "1h30m": 90 * time.Minute, "106751d": 106751 * Day,
		"106751d23h47m16s854ms775us807ns": 1<<63 - 1,
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "-d", "1", "1d2", "1 d", "1d ", " 1d", "1day", "1dd", "1d-1h", "1d+1h", "--1d", "1.2.3d", "1e3d", "0x1d", "1D",
		"106752d", "106751d23h47m16s854ms775us808ns", "99999999999999999999d", "106751d106751d", "1w", "１d", "inf d", "\xffd",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"7d", "1d12h", "-1.5d", "1h", "0", ".d", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil && got != 0 {
			t.Errorf("got %v beside %v", got, err)
		}
		if !strings.Contains(text, "d") {
			if want, e := time.ParseDuration(text); got != want || (e == nil) != (err == nil) {
				t.Errorf("Parse(%q) = %v, %v; without days it is %v, %v", text, got, err, want, e)
			}
			return
		}
		if err == nil && (got < 0) != (strings.HasPrefix(text, "-") && got != 0) {
			t.Errorf("Parse(%q) = %v, of the wrong sign", text, got)
		}
		if again, e := Parse(got.String()); err == nil && (again != got || e != nil) {
			t.Errorf("Parse(%q) = %v, which is read as %v, %v", text, got, again, e)
		}
	})
}

func TestFlag(t *testing.T) {
	var f Flag
	if err := f.Set("2d"); err != nil || time.Duration(f) != 2*Day || f.String() != "48h0m0s" {
		t.Errorf("got %v, %v", &f, err)
	}
	if err := f.Set("2 days"); err == nil || time.Duration(f) != 2*Day {
		t.Errorf("got %v, %v; want an error and what was there", &f, err)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                               "0s",
		1234 * time.Microsecond:         "1ms",
		999999 * time.Microsecond:       "999ms",
		time.Second:                     "1.0s",
		9990 * time.Millisecond:         "9.9s",
		59900 * time.Millisecond:        "59s",
		time.Minute:                     "1m00s",
		90*time.Second + 9e8:            "1m30s",
		time.Hour - time.Millisecond:    "59m59s",
		time.Hour:                       "1h00m",
		90*time.Minute + 59*time.Second: "1h30m",
		24*time.Hour - time.Millisecond: "23h59m",
		24 * time.Hour:                  "1d00h",
		(365*24 + 5) * time.Hour:        "365d05h",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestAt(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.Local)
	for text, expected := range map[string]string{
		"24h": "2026-11-27 12:00:00", "0s": "2026-11-28 12:00:00", "2026-11-01": "2026-11-01 00:00:00",
		"2026-11-01 03:04:05": "2026-11-01 03:04:05", "2026-11-01T03:04:05": "2026-11-01 03:04:05",
		now.UTC().Format(time.RFC3339): "2026-11-28 12:00:00", "-1h": "", "yesterday": "", "": "", "2026-13-01": "",
	} {
		got := ""
		if at, ok := At(text, now); ok {
			got = at.Local().Format(time.DateTime)
		}
		if got != expected {
			t.Errorf("%q: %q, expected %q", text, got, expected)
		}
	}
}
