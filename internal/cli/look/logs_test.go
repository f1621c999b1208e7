package look

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/output"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	for text, want := range map[string]time.Time{
		"":                          {},
		"10m":                       now.Add(-10 * time.Minute),
		"7d":                        now.Add(-7 * 24 * time.Hour),
		"2026-01-02T03:04:05+02:00": time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC),
		"2026-01-02 03:04:05":       time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local),
		"2026-01-02T03:04:05":       time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local),
		"2026-01-02":                time.Date(2026, 1, 2, 0, 0, 0, 0, time.Local),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "10", "-10m", "2026-13-01"} {
		if _, err := parseSince(text, now); err == nil || !strings.Contains(err.Error(), "expected how long ago") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"":         "",
		"a+b":      "",
		"ä[z-a]":   `"ä[z-a]": column 3: invalid character class range: "z-a"`,
		"a(b":      `"a(b": column 1: missing closing ): "a(b"`,
		"yx{1001}": `"yx{1001}": column 3: invalid repeat count: "{1001}"`,
		"a**":      `"a**": column 2: invalid nested repetition operator: "**"`,
		"(?=a)":    `"(?=a)": column 1: invalid or unsupported Perl syntax: "(?="`,
	} {
		err := checkPattern(pattern)
		switch {
		case err == nil && want != "":
			t.Errorf("%s is a pattern", pattern)
		case err != nil && err.Error() != want:
			t.Errorf("%s: %v, want %s", pattern, err, want)
		}
	}
}

// Separators of incarnations appear between lines. When following, new ones always appear.
func TestLogPrinter(t *testing.T) {
	at := time.Now()
	began := func(n uint64) output.Line {
		return output.Line{Path: "t/a", Time: at, Between: &output.Between{Began: n}}
	}
	ended := func(n uint64) output.Line {
		return output.Line{Path: "t/a", Time: at, Between: &output.Between{Ended: n, EndedAt: at, Exit: "exit code 1\nlast \x1b[31mwords"}}
	}
	both := ended(2)
	both.Between.Began = 3
	line := func(path, text string) output.Line { return output.Line{Path: path, Line: text} }
	live, late := output.Line{Live: true}, began(1)
	late.Path = "t/new"
	lines := []output.Line{
		ended(1), began(2), line("t/a", "zero"), live, began(1), line("t/a", "one"), ended(1), line("t/bb", "other"),
		began(2), line("t/a", "two \x1b[2Jx"), both, line("t/a", "three"), ended(3), late,
	}
	clock := at.Local().Format(time.TimeOnly)
	how := "--- t/a: incarnation %d ended " + clock + ": exit code 1 last words"
	how = strings.ReplaceAll(how, "%d", "N")
	first, second, third := strings.Replace(how, "N", "1", 1), strings.Replace(how, "N", "2", 1), strings.Replace(how, "N", "3", 1)
	oneStarted := "--- t/a: incarnation 1 started " + clock + " ---"
	twoStarted := "--- t/a: incarnation 2 started " + clock + " ---"
	for follow, want := range map[bool][]string{
		false: {
			"t/a  | zero", oneStarted, "t/a  | one", "t/bb | other", first + " ---", twoStarted,
			"t/a  | two x", second + "; incarnation 3 started " + clock + " ---", "t/a  | three",
		},
		true: {
			"t/a  | zero", oneStarted, "t/a  | one", first + " ---", "t/bb | other", twoStarted,
			"t/a  | two x", second + "; incarnation 3 started " + clock + " ---", "t/a  | three", third + " ---", strings.Replace(oneStarted, "t/a", "t/new", 1),
		},
	} {
		var out strings.Builder
		p := &logPrinter{
			out: &out, follow: follow, prefix: true, width: 4,
			colour: map[string]string{}, ends: map[string]string{}, begun: map[string]bool{},
		}
		for _, l := range lines {
			if l.Live && !follow {
				continue
			}
			if err := p.print(l); err != nil {
				t.Fatal(err)
			}
		}
		if got := out.String(); got != strings.Join(want, "\n")+"\n" {
			t.Errorf("follow %v:\n%s\nwant:\n%s", follow, got, strings.Join(want, "\n"))
		}
	}
}
