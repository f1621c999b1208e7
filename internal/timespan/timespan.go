// Package timespan parses and formats durations for people: those of Go, and days.
package timespan

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Day is 24 hours, independent of the calendar.
const Day = 24 * time.Hour

// Units lists the units of Parse, for messages.
const Units = "ns, us, ms, s, m, h, d (24 hours)"

// Parse works like time.ParseDuration with the additional unit d: "7d", "1d12h", "-0.5d". A
// duration of more than 64 bits of nanoseconds, about 292 years, is an error.
func Parse(text string) (time.Duration, error) {
	if !strings.Contains(text, "d") {
		return time.ParseDuration(text)
	}
	wrong := func() (time.Duration, error) { return 0, fmt.Errorf("invalid duration %.60q", text) }
	rest, sign := strings.TrimPrefix(text, "+"), time.Duration(1)
	if strings.HasPrefix(text, "-") {
		rest, sign = text[1:], -1
	}
	var sum time.Duration
	for rest != "" {
		number := strings.IndexFunc(rest, func(r rune) bool { return !isNumber(r) })
		if number <= 0 {
			return wrong() // a sign in the middle, or no unit
		}
		unit := strings.IndexFunc(rest[number:], isNumber)
		if unit < 0 {
			unit = len(rest) - number
		}
		part, factor := rest[:number+unit], time.Duration(1)
		if part[number:] == "d" {
			part, factor = rest[:number]+"h", Day/time.Hour
		}
		d, err := time.ParseDuration(part)
		if err != nil || d > (math.MaxInt64-sum)/factor {
			return wrong()
		}
		sum += d * factor
		rest = rest[number+unit:]
	}
	return sign * sum, nil
}

// At parses a time: how long before now, such as 24h, a time of RFC 3339, or a local date or time.
func At(text string, now time.Time) (at time.Time, ok bool) {
	if d, err := Parse(text); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	for _, layout := range []string{"2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

func isNumber(r rune) bool { return '0' <= r && r <= '9' || r == '.' }

// Flag is a duration flag; a pointer to it is a pflag.Value.
type Flag time.Duration

// Set parses the value.
func (f *Flag) Set(text string) error {
	d, err := Parse(text)
	if err != nil {
		return fmt.Errorf("expected a duration such as 90s, 1h30m or 7d; the units are %s", Units)
	}
	*f = Flag(d)
	return nil
}

func (f *Flag) String() string { return time.Duration(*f).String() }

// Type returns the name of the value in help texts.
func (f *Flag) Type() string { return "duration" }

// Short formats a duration with its two largest units, truncated rather than rounded.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Truncate(time.Millisecond).String()
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
