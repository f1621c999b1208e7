package cron

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func mustParse(t testing.TB, expr string, zone *time.Location) *Schedule {
	t.Helper()
	s, err := Parse(expr, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func readTime(t testing.TB, text string, zone *time.Location) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00"} {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at
		}
	}
	t.Fatalf("%q is no time", text)
	return time.Time{}
}

func TestCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	zone, facts := time.UTC, 0
	var s *Schedule
	for n, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#" || strings.HasPrefix(line, "#"):
		case words[0] == "zone":
			zone = mustZone(t, words[1])
		case words[0] == "expr":
			s = mustParse(t, strings.TrimPrefix(line, "expr "), zone)
		case words[0] == "=" || words[0] == "!":
			for _, word := range words[1:] {
				at := readTime(t, word, zone)
				if due := s.Next(at.Add(-time.Second)).Equal(at); due != (words[0] == "=") {
					t.Errorf("line %d: %s: due at %s is %v", n+1, s, word, due)
				}
				facts++
			}
		case len(words) > 2 && words[1] == "->":
			at := readTime(t, words[0], zone)
			for _, word := range words[2:] {
				want := readTime(t, word, zone)
				got := s.Next(at)
				if !got.Equal(want) {
					t.Errorf("line %d: %s after %v: %v, want %v", n+1, s, at, got, want)
				}
				at = want
				facts++
			}
		default:
			t.Fatalf("line %d: %q", n+1, line)
		}
	}
	if facts < 300 {
		t.Errorf("only %d facts", facts)
	}
	t.Log(facts, "facts")
}

func TestErrors(t *testing.T) {
	for expr, want := range map[string]string{
		"":                                      "empty, expected five (minute, hour, day of month, month, day of week)",
		"* * * *":                               "4 fields",
		"* * * * * * *":                         "7 fields",
		"99 * * * *":                            `minute "99": 99 is not in 0-59`,
		"60 * * * *":                            "not in 0-59",
		"* 24 * * *":                            `hour "24": 24 is not in 0-23`,
		"* * 0 * *":                             `day of month "0": 0 is not in 1-31`,
		"* * 32 * *":                            "not in 1-31",
		"* * * 0 *":                             `month "0": 0 is not in 1-12`,
		"* * * 13 *":                            "not in 1-12",
		"* * * * 8":                             `day of week "8": 8 is not in 0-7`,
		"60 * * * * *":                          `second "60"`,
		"foo * * * *":                           `minute "foo": expected a number from 0 to 59, *`,
		"* * * foo *":                           "a name from JAN to DEC",
		"* * * * foo":                           "a name from SUN to SAT",
		"* * * * JAN":                           "a name from SUN to SAT",
		"A-B * * * *":                           `minute "A-B"`,
		"60-65 * * * *":                         "not in 0-59",
		"* 24-28/2 * * *":                       "not in 0-23",
		"- * * * *":                             "a value is missing",
		"/ * * * *":                             "a value is missing",
		"1, * * * *":                            `minute "": a value is missing`,
		", * * * *":                             "a value is missing",
		"1- * * * *":                            "a value is missing",
		"-1 * * * *":                            "a value is missing",
		"+1 * * * *":                            "expected a number",
		"1_0 * * * *":                           "expected a number",
		"0x1 * * * *":                           "expected a number",
		"1.5 * * * *":                           "expected a number",
		"Z/Z * * * *":                           "expected a number",
		"*/0 * * * *":                           "a number from 1 to 60 after the slash",
		"*/ * * * *":                            "after the slash",
		"*/x * * * *":                           "after the slash",
		"*/-1 * * * *":                          "after the slash",
		"*/2/3 * * * *":                         "after the slash",
		"*/90 * * * *":                          "a step of 90 is more than the field has",
		"* */25 * * *":                          "a step of 25",
		"*/999999999999 * * * *":                "after the slash",
		"99999999999999 * * * *":                "expected a number",
		"** * * * *":                            "expected a number",
		"*5 * * * *":                            "expected a number",
		"*-5 * * * *":                           "expected a number",
		"30-10 * * * *":                         "write it as two, 30-59,0-10",
		"* 22-4 * * *":                          "write it as two, 22-23,0-4",
		"* * * NOV-FEB *":                       "write it as two, NOV-12,1-FEB",
		"* * * * FRI-MON":                       "write it as two, FRI-6,0-MON",
		"* * L * *":                             "L, W and # are not supported",
		"* * 15W * *":                           "L, W and # are not supported",
		"* * * * 5#2":                           "L, W and # are not supported",
		"* * * * 5L":                            "L, W and # are not supported",
		"? * * * *":                             "? can only stand for a day",
		"0 0 30 2 *":                            `day of month "30": no month of "2" has such a day, it would never be due`,
		"0 0 31 4,6,9,11 *":                     "never be due",
		"0 0 31 FEB ?":                          "never be due",
		"0 0 30-31 2 */2":                       "never be due",
		"@fortnightly":                          "@fortnightly\" is not known",
		"@":                                     "not known",
		"@reboot":                               "no @reboot",
		"@daily 5":                              "nothing may follow @daily",
		"@every":                                "expected one duration",
		"@every 5":                              "not a duration",
		"@every 0s":                             "from 1s",
		"@every -5m":                            "from 1s",
		"@every 1500ms":                         "whole seconds",
		"@every 999999h":                        "from 1s",
		"@every 5m 5m":                          "one duration",
		"TZ=UTC 0 5 * * *":                      "time zone is not part",
		"CRON_TZ=Asia/Tokyo * * * ":             "time zone is not part",
		"\x00 * * * *":                          `minute "\x00"`,
		strings.Repeat("1,", 600) + "1 * * * *": "at most 1024",
	} {
		s, err := Parse(expr, time.UTC)
		var e *Error
		if s != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%q: %v, want %s", expr, err, want)
		}
	}
}

func TestErrorPlace(t *testing.T) {
	_, err := Parse("0  5,77 * * *", time.UTC)
	var e *Error
	if !errors.As(err, &e) || e.Field != "hour" || e.Text != "77" || e.Offset != 5 {
		t.Errorf("%+v", e)
	}
}

func TestZones(t *testing.T) {
	for _, name := range []string{"", " UTC", "Europe/Berln", "../etc/passwd", "/etc/localtime", "CEST", "a\x00b"} {
		if zone, err := LoadZone(name); err == nil {
			t.Errorf("%q is %v", name, zone)
		}
	}
	if zone := mustZone(t, "Local"); zone != time.Local {
		t.Error(zone)
	}
	s := mustParse(t, "0 12 * * *", mustZone(t, "Asia/Tokyo"))
	if next := s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); next.Location() != s.Zone() || next.Hour() != 12 || s.String() != "0 12 * * *" {
		t.Error(next, s)
	}
}

// Fractions of a second do not make a schedule due twice or never.
func TestFractions(t *testing.T) {
	s := mustParse(t, "* * * * * *", time.UTC)
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, part := range []time.Duration{0, 1, time.Second - 1} {
		if next := s.Next(at.Add(part)); !next.Equal(at.Add(time.Second)) {
			t.Errorf("%v: %v", part, next)
		}
	}
}
