package notify

import (
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// quietEnd returns when quiet hours end in which a time is; zero if it is in none. It looks at what the clock shows in
// each minute, so it is right when clocks are changed.
func quietEnd(h spec.Hours, now time.Time) time.Time {
	return until(now, func(t time.Time) bool { return !h.Contain(spec.ClockOf(t)) })
}

// reportDate returns the local date of the last report that is due at a time.
func reportDate(at spec.Clock, now time.Time) string {
	if spec.ClockOf(now) < at {
		now = time.Date(now.Year(), now.Month(), now.Day()-1, 12, 0, 0, 0, now.Location())
	}
	return now.Format(time.DateOnly)
}

// nextReport returns when the next report is due.
func nextReport(at spec.Clock, now time.Time) time.Time {
	date := reportDate(at, now)
	return until(now, func(t time.Time) bool { return reportDate(at, t) > date })
}

// until returns the first minute from a time on in which something holds; zero if it holds at that time, or within
// 2 days not.
func until(now time.Time, holds func(time.Time) bool) time.Time {
	if holds(now) {
		return time.Time{}
	}
	now = now.Round(0)
	begin := now.Add(-time.Duration(now.Second())*time.Second - time.Duration(now.Nanosecond()))
	for n := range 2 * 24 * 60 {
		if t := begin.Add(time.Duration(n+1) * time.Minute); holds(t) {
			return t
		}
	}
	return time.Time{}
}
